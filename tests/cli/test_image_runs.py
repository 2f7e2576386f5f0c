"""Folders of images."""

import numpy as np
import pytest
from PIL import Image

from permutogeo.cli.image_runs import ImageJob, plan_images


@pytest.fixture
def photos(tmp_path):
    """Three images, one of them damaged, with guides and scores of the same names."""
    rng = np.random.default_rng(0)
    for folder in ("photos/deep", "guides/deep", "scores/deep"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("a.png", "deep/b.jpg", "deep/bad.png"):
        pixels = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / name)
        guide = (tmp_path / "guides" / name).with_suffix(".png")
        Image.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(guide)
        scores = (tmp_path / "scores" / name).with_suffix(".npy")
        np.save(scores, rng.random((12, 16, 3)).astype(np.float32))
    (tmp_path / "photos/deep/bad.png").write_bytes(b"nothing")
    return tmp_path


def test_plan(photos):
    jobs = plan_images(photos / "photos", photos / "out", photos / "guides")
    assert jobs[1] == ImageJob(
        photos / "photos/deep/b.jpg", photos / "out/deep/b.jpg", photos / "guides/deep/b.png"
    )
    (photos / "guides/a.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"guides': Expected a file for 'a.png'"):
        plan_images(photos / "photos", photos / "out", photos / "guides")
    with pytest.raises(ValueError, match=r"Expected images in '.*scores' \(found none\)"):
        plan_images(photos / "scores", photos / "out", None)


@pytest.mark.parametrize(
    ("command", "partner", "outputs"),
    [
        ("filter", (), ["a.png", "deep/b.jpg"]),
        ("upsample", ("--guide", "guides"), ["a.png", "deep/b.jpg"]),
        ("segment", ("--unary", "scores"), ["a.png", "deep/b.png"]),
    ],
)
def test_commands_on_folders(photos, run, names, monkeypatch, command, partner, outputs):
    monkeypatch.chdir(photos)
    result = run(command, "photos", *partner, "-o", "out", "--resume")
    assert result.exit_code == 1 and "1 of 3 images failed: photos/deep/bad.png" in result.output
    assert result.output.rstrip().endswith("photos/deep/bad.png")  # nothing about the exit code
    assert names(photos / "out") == sorted([*outputs, "permutogeo-manifest.jsonl"])
    again = run(command, "photos", *partner, "-o", "out", "--resume")
    assert again.exit_code == 1 and "Skipped 2 of 3 images that are done" in again.output


def test_one_file_equals_its_place_in_a_folder(photos, run, monkeypatch):
    monkeypatch.chdir(photos)
    assert run("filter", "photos/a.png", "-o", "one.png").exit_code == 0
    run("filter", "photos", "-o", "out")
    assert (photos / "one.png").read_bytes() == (photos / "out/a.png").read_bytes()
    assert (
        "Expected no --overlay"
        in run("segment", "photos", "--unary", "scores", "-o", "o", "--overlay", "x.png").output
    )
