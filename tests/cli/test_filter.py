import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo.image import bilateral_filter


def run(*args):
    return CliRunner().invoke(cli.app, ["filter", *map(str, args)])


def load(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


@pytest.fixture
def photo(tmp_path):
    """Two halves with noise, as a file."""
    rng = np.random.default_rng(0)
    image = np.where(np.arange(36) < 18, 60, 180)[None, :, None] + rng.normal(0, 8, (24, 36, 3))
    path = tmp_path / "photo.png"
    Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(path)
    return path


def test_smooths_within_edges(photo):
    out = photo.with_name("smooth.png")
    result = run(photo, "-o", out, "--sigma-pos", 4, "--sigma-color", 40)
    assert result.exit_code == 0, result.output
    assert "36 x 24 pixels" in result.output
    image, smooth = load(photo), load(out)
    assert abs(smooth.astype(int) - bilateral_filter(image, 4, 40)).max() <= 1
    assert smooth[:, :18].std() < 0.5 * image[:, :18].std()
    assert abs(int(smooth[12, 19, 0]) - int(smooth[12, 16, 0])) > 100


def test_a_guide_decides_the_edges(photo):
    guide = photo.with_name("guide.png")
    Image.fromarray(np.zeros((24, 36), np.uint8)).save(guide)
    out = photo.with_name("smooth.png")
    assert run(photo, "-o", out, "--guide", guide).exit_code == 0
    expected = bilateral_filter(load(photo), 8, 20, guide=load(guide))
    assert abs(load(out).astype(int) - expected).max() <= 1
    assert abs(int(load(out)[12, 18, 0]) - int(load(out)[12, 17, 0])) < 30


def test_transparency_stays(photo):
    rgba = np.dstack([load(photo), np.arange(24 * 36).reshape(24, 36) % 251]).astype(np.uint8)
    for pixels in (rgba, rgba[..., 2:]):
        Image.fromarray(pixels).save(photo)
        out = photo.with_name("smooth.png")
        assert run(photo, "-o", out).exit_code == 0
        smooth = load(out)
        np.testing.assert_array_equal(smooth[..., -1], pixels[..., -1])
        expected = bilateral_filter(pixels[..., :-1].copy(), 8, 20)
        assert abs(smooth[..., :-1].astype(int) - expected).max() <= 1


def test_sixteen_bits_and_arrays_stay(photo):
    gray = load(photo)[..., 0].astype(np.uint16) * 257
    Image.fromarray(gray).save(photo)
    out = photo.with_name("smooth.png")
    assert run(photo, "-o", out).exit_code == 0
    assert load(out).max() > 255 and len(np.unique(load(out) % 257)) > 50
    array = photo.with_name("photo.npy")
    np.save(array, gray / 65535 * 7.0)
    assert run(array, "-o", photo.with_name("smooth.npy")).exit_code == 0
    expected = bilateral_filter((gray / 65535 * 7.0).astype(np.float32), 8, 20 / 255)
    np.testing.assert_allclose(np.load(photo.with_name("smooth.npy")), expected, atol=1e-4)


def test_errors(photo):
    small = photo.with_name("small.png")
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(small)
    out = photo.with_name("out.png")
    for arguments, message in [
        ((photo, "-o", out, "--guide", small), "'guide' of the image's size"),
        ((photo, "-o", out, "--sigma-pos", 0), "Expected --sigma-pos greater than 0 (got 0)"),
        (
            (photo, "-o", out, "--sigma-color", "nan"),
            "Expected --sigma-color greater than 0 (got nan)",
        ),
        ((photo, "-o", photo), "would overwrite the input"),
        ((photo, "-o", photo.with_name("out.xyz")), "Expected one of"),
        ((photo.with_name("none.png"), "-o", out), "none.png"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ") and message in result.output
        assert not out.exists()


def test_another_device(photo):
    """``cpu:0`` takes the way of tensors on a device."""
    outputs = [photo.with_name(f"{i}.png") for i in range(2)]
    for out, device in zip(outputs, ("cpu", "cpu:0"), strict=True):
        assert run(photo, "-o", out, "--device", device).exit_code == 0
    assert abs(load(outputs[0]).astype(int) - load(outputs[1])).max() <= 1
    result = run(photo, "-o", photo.with_name("x.png"), "--device", "abacus")
    assert result.exit_code == 1 and "a device of this machine (got 'abacus'" in result.output
