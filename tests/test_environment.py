"""Hostile environments: a full disk, no home, closed output, no permissions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow
FILTER = (
    "import torch\n"
    "from permutogeo.functional import gaussian_filter\n"
    "print(float(gaussian_filter(torch.ones(50, 1), torch.rand(50, 2)).mean()))\n"
)
MAIN = "from permutogeo.cli import main; main()"


def run(code, *arguments, cwd, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, **options,
    )  # fmt: skip


FULL_DISK = """
import resource, signal, sys
import numpy as np, trimesh
from permutogeo.data import from_mesh, to_mesh

ball = trimesh.creation.icosphere(4)
mesh = from_mesh(np.array(ball.vertices), np.array(ball.faces))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing beyond the limit is then an OSError
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    to_mesh(mesh, sys.argv[1])
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".off", ".stl"])
def test_a_full_disk_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"mesh{suffix}"
    path.write_bytes(b"the old content")
    done = run(FULL_DISK, str(path), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "OSError\n"), done.stderr
    assert path.read_bytes() == b"the old content"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_output_to_a_full_device(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "--version"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert done.returncode != 0


def test_closed_output(tmp_path):
    """The reader of a pipe has gone before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "--help"],
        stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(writer)
    assert "Traceback" not in done.stderr


@pytest.fixture
def nobody():
    """Options of a process without rights; needs root and a Python that others can read."""
    options = {"user": 65534, "group": 65534, "cwd": "/"}
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can become another user")
    try:
        done = subprocess.run(
            [sys.executable, "-c", "import torch"], capture_output=True, **options
        )
    except OSError:
        pytest.skip("other users cannot run this Python")
    if done.returncode != 0:
        pytest.skip("other users cannot import torch")
    return options


def test_another_user(nobody):
    """A user without a home, who may write nowhere but to the temporary folder."""
    done = run(FILTER, env={"HOME": "/nonexistent"}, **nobody)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(1.0, abs=1e-5)
