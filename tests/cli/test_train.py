"""``permutogeo train denoise``, from the shell's side."""

import re

import pytest
import torch

from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.denoising import denoise


def test_train_and_use_the_weights(tmp_path, run, cube, noisy):
    folder = tmp_path / "clean"
    (folder / "deep").mkdir(parents=True)
    to_mesh(cube(2), folder / "deep" / "a.ply")
    (folder / "b.ply").write_text("not a mesh")
    to_point_cloud(from_point_cloud(cube().pos), folder / "cloud.ply")
    weights = tmp_path / "mine.safetensors"
    result = run("train", "denoise", "--data", folder, "-o", weights, "--steps", 2, "--copies", 1)
    assert result.exit_code == 0, result.output
    assert "1 mesh to train on, 2 steps" in result.stdout
    assert re.search(r"new noise: \d+\.\d\d degrees before, \d+\.\d\d degrees after", result.stdout)
    assert result.stderr.count("skipped") == 2
    path = to_mesh(noisy(), tmp_path / "a.ply")
    out = tmp_path / "b.ply"
    assert run("denoise", path, "-o", out, "--weights", weights).exit_code == 0
    assert not torch.equal(from_mesh(out).pos, denoise(from_mesh(path)).pos)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "empty", "-o", "w.safetensors"), "in 'empty' (found none)"),
        (("--data", "scan.ply", "-o", "w.pt"), "'.pt'"),
        (("--data", "scan.ply", "-o", "scan.ply/w.safetensors"), "a folder to write to"),
        (("--data", "none.ply", "-o", "w.safetensors"), "none.ply': Expected a file"),
        (("--data", "scan.ply", "-o", "w.safetensors", "--start", "none.safetensors"), "none.safe"),
    ],
)
def test_wrong_training(scan, options, message, monkeypatch, run, names):
    monkeypatch.chdir(scan.parent)
    (scan.parent / "empty").mkdir()
    result = run("train", "denoise", *options)
    assert result.exit_code == 1
    assert "Error: " in result.stderr and message in result.stderr
    assert names(scan.parent) == ["scan.ply"]
