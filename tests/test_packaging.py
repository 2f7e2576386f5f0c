"""Source distribution and wheel: complete, and usable without the repository."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("permutogeo", "kernels", "datasets", "benchmarks", "examples", "tests", "docs", ".ci")
pytestmark = pytest.mark.slow


def repository_files():
    """Return the files of the repository, without caches, relative to its root."""
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {
        path.relative_to(ROOT)
        for path in found
        if not {"__pycache__", "_build"} & {*path.parts}
        and path.name != ".gitignore"
        and not (path.suffix == ".rst" and path.parent.name == "api")
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source distribution and a wheel, built from a copy of the repository."""
    pytest.importorskip("setuptools")
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in repository_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    code = (
        "import sys; from setuptools import build_meta as b\n"
        f"b.build_sdist({str(out)!r}); b.build_wheel({str(out)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_source_distribution_is_complete(built):
    with tarfile.open(built[0]) as archive:
        names = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert repository_files() <= names


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"permutogeo"}
    for name in repository_files():
        room = name.parts[0]
        if name.suffix == ".py" and room in ("permutogeo", "kernels", "datasets", "benchmarks"):
            inside = name if room == "permutogeo" else Path("permutogeo", name)
            assert inside.as_posix() in names
    assert {"permutogeo/py.typed", "permutogeo/weights/mesh_denoiser.safetensors"} <= names
    assert any(name.startswith("permutogeo/viz/web/") for name in names)


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The wheel, unpacked into a folder that comes first on the path."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(folder)
    return folder


def run(installed, *command, cwd):
    environment = {k: v for k, v in os.environ.items() if k != "PERMUTOGEO_DATA"}
    environment["PYTHONPATH"] = str(installed)
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=cwd, env=environment
    )


def test_all_rooms_import_from_the_wheel(installed, tmp_path):
    code = (
        "import permutogeo as pg\n"
        "for name in pg.__all__: getattr(pg, name)\n"
        "import permutogeo.kernels, permutogeo.datasets\n"
        "print(pg.__file__, pg.datasets.__file__)"
    )
    done = run(installed, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(path.startswith(str(installed)) for path in done.stdout.split())


def test_a_new_user_in_an_empty_folder(installed, tmp_path):
    """The README's commands that need no file of the user's, and one that does."""
    import trimesh

    trimesh.creation.icosphere(3).export(tmp_path / "scan.ply")
    main = "from permutogeo.cli import main; main()"
    for arguments in (
        ["--version"],
        ["info", "--json"],
        ["selftest", "--quick"],
        ["denoise", "scan.ply", "-o", "clean.ply", "--report", "report.html"],
    ):
        done = run(installed, "-c", main, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        *("scan.ply", "clean.ply", "report.html", "report.png")
    }


def test_users_get_types(installed, tmp_path):
    """mypy sees the types of the public names of an installed wheel."""
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(
        "import torch\n"
        "import permutogeo as pg\n"
        "reveal_type(pg.Lattice.build(torch.rand(9, 2)))\n"
        "reveal_type(pg.functional.gaussian_filter(torch.rand(9, 1), torch.rand(9, 2)))\n"
        "reveal_type(pg.nn.BilateralConv)\n"
        "reveal_type(pg.datasets.Tiles)\n"
    )
    done = run(installed, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"),
               "--ignore-missing-imports", "user.py", cwd=tmp_path)  # fmt: skip
    kinds = [line.split("Revealed type is")[1] for line in done.stdout.splitlines()
             if "Revealed type is" in line]  # fmt: skip
    assert len(kinds) == 4 and not any(kind.strip() == '"Any"' for kind in kinds), done.stdout
