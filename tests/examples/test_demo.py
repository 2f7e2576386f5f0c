"""What ``make demo`` shows is what it writes."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

ROOT = Path(__file__).parents[2]
METHODS = ("noisy", "smooth", "gaussian", "learned")


def read(path):
    mesh = trimesh.load(path, process=False)
    return np.asarray(mesh.vertices), np.asarray(mesh.faces)


def normals(vertices, faces):
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    cross = np.cross(b - a, c - a)
    return cross / np.linalg.norm(cross, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder, and the lines that were printed."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(ROOT / "examples" / "denoise_demo.py"), "--quick"]
    done = subprocess.run(
        [*command, "--output", "out"], capture_output=True, text=True, cwd=folder, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder, done.stdout.splitlines()


def test_the_table_is_that_of_the_meshes(demo):
    folder, lines = demo
    truth, faces = read(folder / "out" / "ground_truth.ply")
    errors = []
    for name in METHODS:
        cells = next(line for line in lines if line.startswith(name)).split()[1:]
        vertices, same = read(folder / "out" / f"{name}.ply")
        assert np.array_equal(same, faces)
        rmse = 1e3 * np.sqrt(((vertices - truth) ** 2).sum(axis=1).mean())
        cosine = (normals(vertices, faces) * normals(truth, faces)).sum(axis=1)
        angle = np.degrees(np.arccos(cosine.clip(-1, 1))).mean()
        assert [float(cell) for cell in cells[:2]] == pytest.approx([rmse, angle], rel=2e-3)
        assert len(cells) == 2 + (name != "noisy")
        errors.append((rmse, angle))
    assert (np.array(errors[1:]) < np.array(errors[0])).all()


def test_it_ends_with_the_paths_of_all_it_wrote(demo):
    folder, lines = demo
    listed = lines[lines.index("", lines.index("") + 1) + 1 :]
    written = {str(path.relative_to(folder)) for path in (folder / "out").iterdir()}
    assert set(listed) == written and len(listed) == 7
    with Image.open(folder / "out" / "denoise.png") as picture:
        assert np.asarray(picture.convert("RGB")).std() > 1
    page = (folder / "out" / "denoise.html").read_text(encoding="utf-8")
    assert page.count("<canvas") == 5 and "learned" in page


def test_make_demo_runs_it():
    rule = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "examples/denoise_demo.py --output demo-output" in rule[1]
