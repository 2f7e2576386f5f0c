"""Import rules between the rooms of the package, read from the syntax tree.

A room is a folder or a module directly inside the package, or one of the folders in ``BESIDE``.
``ROOMS`` says which rooms each may import. Across rooms only two things may be imported: names
that a room exports from its ``__init__``, and modules listed in ``DOORS``.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

BASE = {"checks", "typing"}
OPS = BASE | {"runtime", "ops"}
LATTICE = OPS | {"lattice"}
FUNCTIONAL = LATTICE | {"functional"}
SOLVERS = FUNCTIONAL | {"solvers"}
NN = SOLVERS | {"nn"}
MODELS = NN | {"models", "weights", "data"}
DATA = {"data", "typing"}
ROOMS = {
    "kernels": set(),
    "testing": set(),
    "typing": set(),
    "checks": {"typing"},
    "runtime": {"kernels"},
    "ops": BASE | {"runtime", "kernels"},
    "lattice": OPS,
    "distributed": LATTICE,
    "functional": LATTICE,
    "solvers": FUNCTIONAL,
    "nn": SOLVERS | {"distributed"},
    "weights": DATA,
    "models": NN | {"weights"},
    "image": NN | DATA,
    "data": BASE,
    "transforms": DATA | FUNCTIONAL,
    "datasets": DATA | {"transforms"},
    "train": DATA | {"weights", "checks"},
    "tiles": DATA | {"checks", "runtime"},
    "cluster": set(),
    "viz": FUNCTIONAL | DATA,
    "denoising": MODELS | {"transforms", "train"},
    "compat": NN | {"image"},
}
# Modules that other rooms may import, beside what a room's __init__ exports.
DOORS = {
    "distributed": "halo points ranges ranks",
    "runtime": "bridge memory products resources threads",
    "ops": "blur boxes build hash_locate mean_field single_precision stencils strided",
    "lattice": "bilateral_system caching conjugate_gradient diagonal incidence lattice "
    "normalization points precision warmup",
    "nn": "crf",
    "weights": "pretrained",
    "data": "fields files formats geometry mesh open3d_loader pixels point_cloud require",
    "denoising": "cascade cloud_error surface_sampling triangles",
    "compat": "pydensecrf spconv",
    "testing": "reference",
    "benchmarks": "baselines clouds collect denoising_set encoding experiment guided_filter "
    "image_denoisers model_size published_conv record timing workloads",
    "cli": "info",
    "datasets": "synthetic",
}
# Rooms that may call Warp through the bridge; all others see ops and lattices.
ABOVE_WARP = {"runtime", "ops", "cli", "benchmarks"}
HEAVY = {"open3d", "matplotlib"}
# The package itself, the command line and the benchmarks stand on top and may import all rooms.
TOP = {"permutogeo", "cli", "benchmarks"}
# Folders at the top level that are imported as permutogeo.kernels and so on.
BESIDE = {"kernels", "datasets", "benchmarks"}
FOLDERS = ("permutogeo", "kernels", "datasets", "examples", "benchmarks", "tests")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


def module_of(path: Path) -> list[str]:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ["permutogeo", *parts] if parts[0] in BESIDE else parts


def room_of(module: list[str]) -> str | None:
    """The room of a dotted name: None for what is not ours, 'permutogeo' for the front door."""
    if module[0] != "permutogeo":
        return None
    front = ([], ["__init__"], ["__version__"], ["_version"])
    return "permutogeo" if module[1:] in front else module[1]


def imports_of(tree: ast.AST, path: Path) -> Iterator[list[str]]:
    module = module_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from ([*base, alias.name] for alias in node.names)


@cache
def all_imports(path: Path) -> list[list[str]]:
    return list(imports_of(ast.parse(path.read_text()), path))


@cache
def exports_of(room: str) -> set[str]:
    """The names in ``__all__`` of a room's ``__init__``."""
    folder = ROOT if room in BESIDE else ROOT / "permutogeo"
    path = folder / room / "__init__.py"
    if not path.is_file():
        return set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


class WithoutFunctions(ast.NodeTransformer):
    """Leaves what runs when the module is imported."""

    def visit_FunctionDef(self, node):
        return None

    visit_AsyncFunctionDef = visit_FunctionDef


OF_THE_PACKAGE = [path for path in FILES if module_of(path)[0] == "permutogeo"]
IN_ROOMS = [path for path in OF_THE_PACKAGE if room_of(module_of(path)) not in TOP]
BUT_TESTS = [path for path in FILES if module_of(path)[0] != "tests"]


@each(IN_ROOMS)
def test_imports_go_one_way(path):
    room = room_of(module_of(path))
    found = {room_of(name) for name in all_imports(path)} - {None, room, "permutogeo"}
    assert room in ROOMS, f"say in ROOMS what {room!r} may import"
    assert found <= ROOMS[room]


@each(BUT_TESTS)
def test_other_rooms_are_entered_by_their_doors(path):
    room = room_of(module_of(path))
    for name in all_imports(path):
        target = room_of(name)
        if target in (None, room, "permutogeo", "kernels", "_version") or len(name) < 3:
            continue
        if (ROOT / "permutogeo" / f"{target}.py").is_file():
            assert not name[2].startswith("_"), ".".join(name)
            continue
        doors = set(DOORS.get(target, "").split()) | exports_of(target)
        assert name[2] in doors, f"{'.'.join(name)} is no door of {target}"
        assert not any(part.startswith("_") for part in name[2:]), ".".join(name)


@each(FILES)
def test_foreign_packages_stay_in_their_rooms(path):
    module = module_of(path)
    room = room_of(module)
    names = all_imports(path)
    found = {name[0] for name in names}
    assert not found & BESIDE, "import them as permutogeo.kernels and so on"
    if room == "kernels":
        assert not found & {"torch", "torch_geometric"}
    elif room not in ("runtime", "benchmarks") and module[0] != "tests":
        assert "warp" not in found
    if room not in ABOVE_WARP and module[0] != "tests":
        assert ["permutogeo", "runtime", "bridge"] not in [name[:3] for name in names]
    if module != ["permutogeo", "data", "open3d_loader"]:
        assert "open3d" not in found, "load_open3d brings the libusb that its wheel lacks"


@each(OF_THE_PACKAGE)
def test_heavy_packages_wait_until_needed(path):
    tree = WithoutFunctions().visit(ast.parse(path.read_text()))
    assert not HEAVY & {name[0] for name in imports_of(tree, path)}


def test_every_package_is_listed():
    tomllib = pytest.importorskip("tomllib")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [module_of(path)[:-1] for path in FILES if path.name == "__init__.py"]
    assert set(listed) == {".".join(name) for name in folders if name[0] == "permutogeo"}
