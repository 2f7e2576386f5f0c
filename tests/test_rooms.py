"""Who may import whom, read from the syntax tree.

A room is a module or a folder of the package; the folders of ``BESIDE`` are rooms too. The
table names what each room may import of ours; modules with a leading underscore hold small shared
helpers, open to all rooms above ``kernels``.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LATTICE = {"lattice", "incidence", "ops", "stencils", "caching", "checks"}
FUNCTIONAL = LATTICE | {"functional"}
NN = FUNCTIONAL | {"nn"}
MODELS = NN | {"models", "weights"}
DATA = {"data"}
ROOMS = {
    "kernels": set(),
    "testing": set(),
    "stencils": set(),
    "ops": {"kernels", "stencils"},
    "caching": set(),
    "checks": {"stencils"},
    "incidence": {"ops", "caching", "checks"},
    "lattice": {"incidence", "ops", "stencils", "caching", "checks"},
    "_kept": {"caching"},
    "_normalizer": LATTICE,
    "_points": LATTICE,
    "_warmup": LATTICE,
    "diagonal": LATTICE,
    "functional": LATTICE,
    "image": NN,
    "nn": FUNCTIONAL | {"diagonal"},
    "weights": DATA,
    "models": NN | {"transforms", "weights"},
    "mesh": MODELS | {"transforms"},
    "data": set(),
    "metrics": {"transforms"},
    "transforms": DATA | FUNCTIONAL,
    "datasets": DATA | {"transforms"},
    "train": MODELS | DATA | {"datasets", "transforms", "metrics"},
    "viz": FUNCTIONAL | DATA,
    "compat": NN | {"image"},
}
HEAVY = {"open3d", "matplotlib"}
# What stands on top of everything may import it.
TOP = {"permutogeo", "cli", "benchmarks"}
# Folders at the top level that are imported as permutogeo.kernels and so on.
BESIDE = {"kernels", "datasets", "benchmarks"}
FOLDERS = ("permutogeo", "kernels", "datasets", "examples", "benchmarks", "tests")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def module_of(path: Path) -> list[str]:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ["permutogeo", *parts] if parts[0] in BESIDE else parts


def room_of(module: list[str]) -> str | None:
    """The room of a dotted name: None for what is not ours, 'permutogeo' for the front door."""
    if module[0] != "permutogeo":
        return None
    return "permutogeo" if module[1:] in ([], ["__init__"]) else module[1]


def imports_of(tree: ast.AST, module: list[str]) -> Iterator[list[str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from ([*base, alias.name] for alias in node.names)


class WithoutFunctions(ast.NodeTransformer):
    """Leaves what runs when the module is imported."""

    def visit_FunctionDef(self, node):
        return None

    visit_AsyncFunctionDef = visit_FunctionDef


@each_file
def test_imports_go_one_way(path):
    module = module_of(path)
    room = room_of(module)
    if room is None or room in TOP:
        return
    found = {room_of(name) for name in imports_of(ast.parse(path.read_text()), module)}
    found -= {None, room}
    if room in ("kernels", "testing"):
        allowed = ROOMS[room]
    else:
        private = {name for name in found if name.startswith("_")}
        assert room in ROOMS or room.startswith("_"), f"say in ROOMS what {room!r} may import"
        allowed = private | ROOMS.get(room, {"kernels", "ops"})
    assert found <= allowed


@each_file
def test_foreign_packages_stay_in_their_rooms(path):
    module = module_of(path)
    room = room_of(module)
    found = {name[0] for name in imports_of(ast.parse(path.read_text()), module)}
    assert not found & BESIDE, "import them as permutogeo.kernels and so on"
    if room == "kernels":
        assert not found & {"torch", "torch_geometric"}
    elif room not in ("_warp", "benchmarks") and module[0] != "tests":
        assert "warp" not in found
    if module != ["permutogeo", "data", "_open3d"]:
        assert "open3d" not in found, "load_open3d brings the libusb that its wheel lacks"


@each_file
def test_heavy_packages_wait_until_needed(path):
    module = module_of(path)
    tree = WithoutFunctions().visit(ast.parse(path.read_text()))
    if module[0] == "permutogeo":
        assert not HEAVY & {name[0] for name in imports_of(tree, module)}


def test_every_package_is_listed():
    tomllib = pytest.importorskip("tomllib")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [module_of(path)[:-1] for path in FILES if path.name == "__init__.py"]
    assert set(listed) == {".".join(name) for name in folders if name[0] == "permutogeo"}
