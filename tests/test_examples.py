import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
# What starts with an underscore is shared by several.
EXAMPLES = sorted((ROOT / "examples").glob("[!_]*.py"))
# One thread: others would wait for each other by spinning, which counts as work.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
# Of processor time. A quick run is to take 15 on a machine of its own; one that is shared, whose
# caches and cores others use as well, doubles or trebles that.
QUICK_SECONDS = 45


def run_quickly(path, *arguments, cwd):
    """Run an example, whose seconds of processor time a busy machine does not change."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, str(path), "--quick", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=ENVIRONMENT,
        timeout=900,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done, spent


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    if "PERMUTOGEO_DATA" in path.read_text() and not os.environ.get("PERMUTOGEO_DATA"):
        pytest.skip("PERMUTOGEO_DATA is not set: the data are not in the repository")
    done, seconds = run_quickly(path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout
    assert seconds < QUICK_SECONDS
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
    done, _ = run_quickly(path, "--output", "pictures", cwd=tmp_path)
    line = next(line for line in done.stdout.splitlines() if line.startswith("PSNR"))
    noisy, smooth = (float(part.split()[0]) for part in line.removeprefix("PSNR ").split(", "))
    assert noisy < 21 and smooth > noisy + 4
    report = next(line for line in done.stdout.splitlines() if "against the exact filter" in line)
    assert float(report.split()[0]) > 40
    with Image.open(tmp_path / "pictures" / "before_after.png") as image:
        assert image.size == (3 * 96, 96)
