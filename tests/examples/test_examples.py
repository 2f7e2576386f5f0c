"""Every example runs with ``--quick``, on the real data if present, else on generated data."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from permutogeo.denoising import MeshDenoiser

ROOT = Path(__file__).parents[2]
# Modules that start with an underscore are shared by several examples.
EXAMPLES = sorted((ROOT / "examples").rglob("[!_]*.py"))
READ_DATA = [path for path in EXAMPLES if "PERMUTOGEO_DATA" in path.read_text()]
SMALL = [path for path in EXAMPLES if not (path in READ_DATA and os.environ.get("PERMUTOGEO_DATA"))]


def check(done, folder):
    """The example succeeded silently, and wrote files that are not empty."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout
    written = [file for file in folder.rglob("*") if file.is_file()]
    assert written
    for file in written:
        assert file.stat().st_size > 0
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert np.asarray(image.convert("RGB")).std() > 1
    for page in folder.rglob("page.html"):
        assert "--quick" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_example_runs(run_quickly, path, small_data, tmp_path):
    check(run_quickly(path, cwd=tmp_path, data=small_data), tmp_path)
    if path.stem == "train_denoiser":
        check_joined(tmp_path / "runs/train_denoiser")


def check_joined(folder):
    """The last file has the trained networks for scanners and the shipped ones beside them."""
    shipped = MeshDenoiser.from_pretrained()
    trained, joined = (
        MeshDenoiser.from_pretrained(folder / f"{name}.safetensors")
        for name in ("mesh_denoiser", "combined")
    )
    for stages, expected in ((joined.stages, shipped.stages), (joined.scan_stages, trained.stages)):
        state = expected.state_dict()
        assert state and all(value.equal(state[key]) for key, value in stages.state_dict().items())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("segment_images", "--task materials"),
        ("segment_images", "--task scenes --stride 16"),
        ("upsample_depth", "--predicted"),
        ("upsample_color", "--chroma"),
        ("denoise_bodies", "--today"),
    ],
)
def test_options(run_quickly, name, options, small_data, tmp_path):
    path = ROOT / "examples" / "paper" / f"{name}.py"
    check(run_quickly(path, *options.split(), cwd=tmp_path, data=small_data), tmp_path)


COMPARE = ROOT / "examples" / "compare_models.py"


@pytest.mark.parametrize("task", ["meshes", "parts", "rooms"])
def test_comparison_goes_on(run_quickly, task, small_data, tmp_path):
    """Each task runs, and a repeated command keeps the runs that are there."""
    only = ["--task", task, "--only", "LatticeUNet", "DiffusionNet", "PointNet++"]
    first = run_quickly(COMPARE, *only, cwd=tmp_path, data=small_data)
    check(first, tmp_path)
    assert "LatticeUNet, rate 0.002, seed 0" in first.stdout
    assert ("DiffusionNet" in first.stdout) == (task != "rooms")
    again = run_quickly(COMPARE, *only, cwd=tmp_path, data=small_data)
    assert "seed 0" not in again.stdout and "LatticeUNet" in again.stdout


def test_comparison_takes_rates_from_a_table(run_quickly, small_data, tmp_path):
    """Contenders that are to choose their rates do not take them."""
    rows = [["LatticeUNet", "0.004"], ["SAGE", "0.004"]]
    table = json.dumps({"columns": ["", "rate"], "rows": rows})
    (tmp_path / "compare_rooms.json").write_text(table)
    options = "--task rooms --only LatticeUNet SAGE --choose-rates LatticeUNet --rates-from"
    done = run_quickly(COMPARE, *options.split(), str(tmp_path), cwd=tmp_path, data=small_data)
    check(done, tmp_path)
    assert "SAGE, rate 0.004, seed 0" in done.stdout
    assert "LatticeUNet, rate 0.002, seed 0" in done.stdout


def test_comparison_of_steps(run_quickly, small_data, tmp_path):
    """Nothing is trained, and tasks without a contender have an empty cell."""
    options = "--task rooms meshes --steps --only LatticeUNet DiffusionNet"
    done = run_quickly(COMPARE, *options.split(), cwd=tmp_path, data=small_data)
    check(done, tmp_path)
    assert "seed" not in done.stdout
    table = json.loads((tmp_path / "runs" / "compare_models" / "steps.json").read_text())
    assert table["columns"] == ["", "rooms", "meshes"]
    (_, *lattice), (_, rooms, meshes) = table["rows"]
    assert rooms is None and all(float(time) > 0 for time in (*lattice, meshes))


@pytest.mark.real_data
@pytest.mark.parametrize("path", READ_DATA, ids=lambda path: path.stem)
def test_example_runs_on_the_real_data(run_quickly, path, data_dir, tmp_path):
    check(run_quickly(path, cwd=tmp_path, data=data_dir), tmp_path)


def test_missing_data_end_in_one_line(run_quickly, tmp_path):
    path = ROOT / "examples" / "classify_shapes.py"
    done = run_quickly(path, cwd=tmp_path, data=tmp_path)
    assert done.returncode == 2
    assert "psb_points.npz" in done.stderr and "Traceback" not in done.stderr


def test_there_are_examples():
    names = {path.relative_to(ROOT / "examples").as_posix() for path in EXAMPLES}
    assert {"filter_image.py", "paper/tiles.py"} <= names


def test_filter_image_reaches_its_figures(run_quickly, small_data, tmp_path):
    """Noise is reduced, and the lattice agrees with the exact filter, as the docstring states."""
    path = ROOT / "examples" / "filter_image.py"
    done = run_quickly(path, "--output", "pictures", cwd=tmp_path, data=small_data)
    line = next(line for line in done.stdout.splitlines() if line.startswith("PSNR"))
    noisy, smooth = (float(part.split()[0]) for part in line.removeprefix("PSNR ").split(", "))
    assert noisy < 21 and smooth > noisy + 4
    report = next(line for line in done.stdout.splitlines() if "against the exact filter" in line)
    assert float(report.split()[0]) > 40
    with Image.open(tmp_path / "pictures" / "before_after.png") as image:
        assert image.size == (3 * 96, 96)
