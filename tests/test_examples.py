import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEED_DATA = ("classify_shapes", "segment_parts")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    if path.stem in NEED_DATA and not os.environ.get("PERMUTOGEO_DATA"):
        pytest.skip("PERMUTOGEO_DATA is not set: the shapes are not in the repository")
    done = subprocess.run(
        [sys.executable, str(path), "--quick"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert written
    for file in written:
        assert file.stat().st_size > 0
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert np.asarray(image.convert("RGB")).std() > 1


def test_there_are_examples():
    assert ROOT / "examples" / "filter_image.py" in EXAMPLES


def test_filter_image_reaches_its_figures(tmp_path):
    """The docstring promises them: noise goes, and the lattice agrees with the exact filter."""
    path = ROOT / "examples" / "filter_image.py"
    done = subprocess.run(
        [sys.executable, str(path), "--quick", "--output", "pictures"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("PSNR"))
    noisy, smooth = (float(part.split()[0]) for part in line.removeprefix("PSNR ").split(", "))
    assert noisy < 21 and smooth > noisy + 4
    report = next(line for line in done.stdout.splitlines() if "against the exact filter" in line)
    assert float(report.split()[0]) > 40
    with Image.open(tmp_path / "pictures" / "before_after.png") as image:
        assert image.size == (3 * 96, 96)
