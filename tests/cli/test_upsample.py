import os

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo.image import bilateral_solver_upsample, joint_bilateral_upsample


def run(*args):
    return CliRunner().invoke(cli.app, ["upsample", *map(str, args)])


def save(path, array):
    """A picture of the array's own channels and bits."""
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        Image.fromarray(array).save(path)
    return path


def load(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


@pytest.fixture
def files(tmp_path):
    """A small picture and a guide four times its size, both of two halves."""
    guide = np.where(np.arange(48) < 21, 40, 200)[None].repeat(32, 0).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 12, (8, 12, 3))
    low = np.where(np.arange(12) < 5, 60, 180)[None, :, None] + noise
    low[:, 5] = 90
    save(tmp_path / "low.png", low.astype(np.uint8))
    save(tmp_path / "guide.png", guide)
    return tmp_path


def test_colors_follow_a_gray_guide(files):
    out = files / "large.png"
    result = run(files / "low.png", "--guide", files / "guide.png", "-o", out)
    assert result.exit_code == 0, result.output
    assert "12 x 8 to 48 x 32 pixels" in result.output
    low, guide, large = (load(files / f"{name}.png") for name in ("low", "guide", "large"))
    expected = joint_bilateral_upsample(low, guide, 16, 6)
    assert large.shape == (32, 48, 3)
    assert abs(large.astype(int) - expected).max() <= 1
    assert large[:, :21].max() < 100 and large[:, 21:].min() > 150
    assert {path.name for path in files.iterdir()} == {"low.png", "guide.png", "large.png"}


def test_bandwidths_are_pixels_and_levels(files):
    out = files / "large.png"
    sigmas = ("--sigma-pos", 5, "--sigma-color", 30)
    assert run(files / "low.png", "--guide", files / "guide.png", "-o", out, *sigmas).exit_code == 0
    low, guide = load(files / "low.png"), load(files / "guide.png")
    expected = joint_bilateral_upsample(low, guide, 5, 30)
    assert abs(load(out).astype(int) - expected).max() <= 1


def test_solver(files):
    out = files / "large.png"
    options = ("--method", "solver", "--sigma-color", 30)
    result = run(files / "low.png", "--guide", files / "guide.png", "-o", out, *options)
    assert result.exit_code == 0, result.output
    low, guide = load(files / "low.png"), load(files / "guide.png")
    expected = bilateral_solver_upsample(low, guide, sigma_color=30)
    assert abs(load(out).astype(int) - expected).max() <= 1


def test_sixteen_bits_stay(files):
    depth = np.random.default_rng(0).integers(1000, 9000, (8, 12)).astype(np.uint16)
    save(files / "depth.png", depth)
    out = files / "large.png"
    assert run(files / "depth.png", "--guide", files / "guide.png", "-o", out).exit_code == 0
    large, guide = load(out), load(files / "guide.png")
    assert large.dtype.kind in "ui" and large.max() > 255
    expected = joint_bilateral_upsample(depth.astype(np.float64), guide)
    assert abs(large - expected).max() < 3
    assert (
        run(files / "depth.png", "--guide", files / "guide.png", "-o", files / "l.jpg").exit_code
        == 0
    )
    assert load(files / "l.jpg").dtype == np.uint8


@pytest.mark.parametrize("channels", [2, 4])
def test_transparency(files, channels):
    """That of the small picture is enlarged with it, that of the guide has no say."""
    rng = np.random.default_rng(0)
    save(files / "low.png", rng.integers(0, 255, (8, 12, channels)).astype(np.uint8))
    guide = rng.integers(0, 255, (32, 48, channels)).astype(np.uint8)
    outputs = []
    for name in ("opaque", "clear"):
        guide[..., -1] = 255 if name == "opaque" else 3
        save(files / "guide.png", guide)
        out = files / f"{name}.png"
        assert run(files / "low.png", "--guide", files / "guide.png", "-o", out).exit_code == 0
        outputs.append(load(out))
    assert outputs[0].shape == (32, 48, channels)
    np.testing.assert_array_equal(*outputs)
    result = run(files / "low.png", "--guide", files / "guide.png", "-o", files / "out.jpg")
    assert result.exit_code == 1
    assert "alpha" in result.output and not (files / "out.jpg").exists()


def test_arrays_of_any_channels_keep_their_units(files):
    scores = np.random.default_rng(0).normal(0, 9, (8, 12, 21)).astype(np.float32)
    save(files / "scores.npy", scores)
    out = files / "large.npy"
    assert run(files / "scores.npy", "--guide", files / "guide.png", "-o", out).exit_code == 0
    guide = load(files / "guide.png").astype(np.float32) / 255
    expected = joint_bilateral_upsample(scores, guide, 16, 6 / 255)
    np.testing.assert_allclose(np.load(out), expected, atol=1e-4)
    save(files / "depth.npy", 5 + np.zeros((8, 12), np.float32))
    out = files / "flat.npy"
    assert run(files / "depth.npy", "--guide", files / "guide.png", "-o", out).exit_code == 0
    assert np.load(out).shape == (32, 48), "[H, W] in gives [H, W] out"
    result = run(files / "depth.npy", "--guide", files / "guide.png", "-o", files / "depth.png")
    assert result.exit_code == 1
    assert "Expected values from 0 to 1 for a picture (got 0 to 5); write to .npy" in result.output


def test_an_existing_file_is_replaced_whole(files):
    out = files / "large.png"
    out.write_bytes(b"old")
    assert run(files / "low.png", "--guide", files / "guide.png", "-o", out).exit_code == 0
    assert load(out).shape == (32, 48, 3)
    out.write_bytes(b"old")
    result = run(files / "low.png", "--guide", files / "low.png", "-o", out, "--sigma-pos", -1)
    assert result.exit_code == 1 and out.read_bytes() == b"old"


NAN = np.full((8, 12), np.nan)


@pytest.mark.parametrize(
    ("low", "guide", "out", "message"),
    [
        ("low.png", "odd.png", "out.png", "one whole factor along both sides (got 31 x 40 over 8"),
        ("guide.png", "low.png", "out.png", "one whole factor"),
        ("missing.png", "guide.png", "out.png", "'{}/missing.png': Expected a file"),
        ("low.png", "missing.png", "out.png", "missing.png"),
        ("low.png", "text.png", "out.png", "text.png': Expected an image"),
        ("nan.npy", "guide.png", "out.npy", "Expected finite pixels (NaN"),
        ("low.png", "guide.png", "out.gif", "Expected one of"),
        ("low.png", "guide.png", "low.png/out.png", "Expected a folder to write to"),
        ("low.png", "guide.png", "low.png", "would overwrite the input"),
        ("low.png", "guide.png", "guide.png", "would overwrite the input"),
        ("low.png", "guide.png", "folder.png", "Expected a file (got a directory)"),
    ],
)
def test_wrong_files(files, low, guide, out, message):
    save(files / "odd.png", np.zeros((31, 40), np.uint8))
    save(files / "nan.npy", NAN)
    (files / "text.png").write_text("no picture")
    (files / "folder.png").mkdir()
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    result = run(files / low, "--guide", files / guide, "-o", files / out)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ") and result.output.count("\n") == 1
    assert message.format(files) in result.output
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written_to(files):
    (files / "kept").mkdir(mode=0o500)
    result = run(files / "low.png", "--guide", files / "guide.png", "-o", files / "kept" / "o.png")
    assert result.exit_code == 1 and "permission to write" in result.output


def test_help_has_an_example():
    result = CliRunner().invoke(cli.app, ["upsample", "--help"])
    assert result.exit_code == 0 and "--guide" in result.output and "Example" in result.output


def test_the_target_is_checked_before_the_work(files, monkeypatch):
    monkeypatch.setattr("permutogeo.image.joint_bilateral_upsample", None)
    save(files / "depth.npy", 5 + np.zeros((8, 12), np.float32))
    result = run(files / "depth.npy", "--guide", files / "guide.png", "-o", files / "depth.png")
    assert result.exit_code == 1 and "from 0 to 1 for a picture" in result.output


def test_bandwidths_in_errors_are_in_levels(files):
    arguments = (files / "low.png", "--guide", files / "guide.png", "-o", files / "x.png")
    result = run(*arguments, "--sigma-color", -1)
    assert result.output == "Error: Expected --sigma-color greater than 0 (got -1)\n"


def test_depth_by_default(files):
    low = save(files / "depth.png", np.linspace(0, 200, 96).reshape(8, 12).astype(np.uint8))
    out = files / "large.png"
    result = run(low, "--guide", files / "guide.png", "-o", out)
    assert result.exit_code == 0, result.output
    expected = joint_bilateral_upsample(load(low), load(files / "guide.png"))
    assert abs(load(out).astype(int) - expected).max() <= 1
