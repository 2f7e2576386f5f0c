"""Source distribution and wheel: complete, and usable without the repository."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("permutogeo", "kernels", "datasets", "benchmarks", "examples", "tests", "docs", ".ci")
# Folders that the package consists of, and what the build writes beside the repository's files.
PACKAGE = ("permutogeo", "kernels", "datasets", "benchmarks")
GENERATED = {"PKG-INFO", "setup.cfg"}
pytestmark = pytest.mark.slow


def repository_files():
    """Return the files of a distribution: those that git tracks, or in an unpacked source
    distribution all but caches; relative to the root."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    else:
        found = [Path(path.name) for path in ROOT.iterdir() if path.is_file()]
        for folder in FOLDERS:
            inside = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
            found += [path.relative_to(ROOT) for path in inside]
    hosted = (".gitignore", ".gitattributes", *GENERATED)
    return {
        path
        for path in found
        if not {"__pycache__", ".github", "_build"} & {*path.parts}
        and path.name not in hosted
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


def test_the_source_distribution_holds_the_repository_and_nothing_else(built):
    with tarfile.open(built[0]) as archive:
        members = [member.name for member in archive.getmembers() if member.isfile()]
    names = {Path(*Path(name).parts[1:]) for name in members}
    expected = repository_files()
    assert expected <= names, sorted(expected - names)
    extra = {name for name in names - expected if name.parts[0] != "permutogeo.egg-info"}
    assert {str(name) for name in extra} <= GENERATED


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"permutogeo"}
    expected = {
        (name if name.parts[0] == "permutogeo" else Path("permutogeo", name)).as_posix()
        for name in repository_files()
        if name.parts[0] in PACKAGE
    }
    assert {name for name in names if name.startswith("permutogeo/")} == expected
    assert {"permutogeo/py.typed", "permutogeo/weights/mesh_denoiser.safetensors"} <= names


def test_the_metadata(built):
    """The metadata of the wheel agrees with the citation file and the changelog."""
    with zipfile.ZipFile(built[1]) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The permutogeo developers"
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert {"Repository", "Issues", "Changelog", "Documentation", "Paper"} == urls.keys()
    version = metadata["Version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    if "dev" not in version:
        assert f"\n## [{version}] - 20" in (ROOT / "CHANGELOG.md").read_text()


def test_an_empty_environment(built, tmp_path):
    """The wheel, installed by pip outside the checkout, filters, trains, loads and denoises.

    Dependencies come from this environment, since an empty one would download gigabytes; `make
    trywheel` installs them too.
    """
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PERMUTOGEO"))
    }

    def call(*command):
        done = subprocess.run(
            [str(python), *map(str, command)],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", built[1])
    # Folders only, not their .pth files: these would bring the checkout of an editable install.
    folders = [
        p for p in sys.path if p.endswith("-packages") and not Path(p, "permutogeo").exists()
    ]
    (site / "dependencies.pth").write_text("\n".join(folders))
    shutil.copy(ROOT / "tests" / "try_wheel.py", tmp_path)
    assert "works on Python" in call("try_wheel.py")


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
