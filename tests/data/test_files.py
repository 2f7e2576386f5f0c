"""Paths, readable files and atomic writes."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import trimesh

from permutogeo.data import from_image, from_mesh, to_image, to_mesh
from permutogeo.data.files import replacing
from permutogeo.data.open3d_loader import load_open3d


def test_missing_directory_and_empty(tmp_path, check_error):
    with check_error(FileNotFoundError, "none.ply"):
        from_mesh(tmp_path / "none.ply")
    (tmp_path / "folder.ply").mkdir()
    with check_error(ValueError, "folder.ply", "directory"):
        from_mesh(tmp_path / "folder.ply")
    o3d = load_open3d()
    for theirs in (o3d.geometry.TriangleMesh(), o3d.t.geometry.TriangleMesh(), trimesh.Trimesh()):
        with check_error(ValueError, "from_mesh: Expected at least one point"):
            from_mesh(theirs)


def test_meshes_are_written_whole_or_not_at_all(tmp_path, mesh, check_error):
    path = to_mesh(mesh, tmp_path / "a.ply")
    before = path.read_bytes()
    mesh.y = mesh.y + 2**40
    with check_error(ValueError, "'y' to fit 32-bit"):
        to_mesh(mesh, path)
    del mesh.y
    mesh.face = mesh.face + 1
    with check_error(ValueError, "to_mesh: Expected face indices"):
        to_mesh(mesh, path)
    with check_error(ValueError, "got '.blend'"):
        to_mesh(from_mesh(path), tmp_path / "a.blend")
    with check_error(FileNotFoundError, "no_folder"):
        to_mesh(from_mesh(path), tmp_path / "no_folder" / "a.ply")
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_images_are_written_whole_or_not_at_all(tmp_path, image, check_error):
    data = from_image(image)
    path = to_image(data, tmp_path / "a.png")
    os.chmod(path, 0o640)
    before = path.read_bytes()
    data.x = data.x * float("nan")
    with check_error(ValueError, "a.png", "finite"):
        to_image(data, path)
    data = from_image(np.zeros((2, 2, 4), np.uint8))
    with check_error(ValueError, "a.jpg", "alpha"):
        to_image(data, tmp_path / "a.jpg")
    with check_error(FileNotFoundError, "no_such_folder"):
        to_image(data, tmp_path / "no_such_folder" / "a.png")
    with check_error(NotADirectoryError, "a.png"):
        to_image(data, path / "b.png")
    (tmp_path / "folder.png").mkdir()
    with check_error(ValueError, "folder.png", "directory"):
        to_image(data, tmp_path / "folder.png")
    with check_error(ValueError, "got '.txt'"):
        to_image(data, tmp_path / "a.txt")
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "folder.png"]
    to_image(data, path)
    assert path.stat().st_mode & 0o777 == 0o640
    link = tmp_path / "link.png"
    link.symlink_to(path)
    to_image(data, link)
    assert link.is_symlink()


@pytest.mark.parametrize("stem", ["\N{GRINNING FACE}" * 62, "a" * 251, "ä" * 125, "a"])
def test_long_names(tmp_path, stem):
    path = tmp_path / f"{stem}.ply"
    with replacing(path) as temporary:
        temporary.write_text("done")
        assert temporary.name.startswith(".") and temporary.suffix == ".ply"
    assert path.read_text() == "done" and len(list(tmp_path.iterdir())) == 1


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    path = tmp_path / "out.ply"
    old = tmp_path / ".out.0123456789abcdef.ply"
    kept = [tmp_path / name for name in (
        ".out.ply", ".other.0123456789abcdef.ply", ".out.0123456789abcdeg.ply", ".out.00.ply"
    )]  # fmt: skip
    for file in (old, *kept):
        file.touch()
        os.utime(file, (1, 1))
    young = tmp_path / ".out.fedcba9876543210.ply"
    young.touch()
    with replacing(path) as temporary:
        temporary.write_text("first")
        os.utime(temporary, (1, 1))
        with replacing(path) as second:  # what is in use stays
            second.write_text("second")
        assert temporary.exists()
    assert path.read_text() == "first"
    assert not old.exists() and young.exists() and all(file.exists() for file in kept)


SLEEPER = """
import sys, time
from pathlib import Path
from permutogeo.data.files import replacing
with replacing(Path(sys.argv[1])) as outer, replacing(Path(sys.argv[2])):
    outer.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_sigterm_leaves_nothing_behind(tmp_path):
    targets = [str(tmp_path / "a.ply"), str(tmp_path / "b.ply")]
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, *targets], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "writing\n"
        assert len(list(tmp_path.iterdir())) == 2
        process.terminate()
        assert process.wait() == -signal.SIGTERM
    assert not list(tmp_path.iterdir())


def test_the_handler_of_the_user_stays(tmp_path):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        with replacing(tmp_path / "a.ply"):
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [1] and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    with replacing(tmp_path / "b.ply"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
