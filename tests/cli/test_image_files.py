import numpy as np
import pytest
from PIL import Image

from permutogeo.cli.image_files import (
    check_channels,
    check_range,
    compute_on,
    read_rgb,
    write_image,
)


def test_rgb_of_gray_and_alpha(tmp_path):
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    Image.fromarray(gray).save(tmp_path / "gray.png")
    assert np.array_equal(read_rgb(tmp_path / "gray.png"), np.dstack([gray] * 3))
    rgba = np.dstack([gray, gray + 1, gray + 2, gray + 3])
    Image.fromarray(rgba).save(tmp_path / "rgba.png")
    assert np.array_equal(read_rgb(tmp_path / "rgba.png"), rgba[..., :3])


def test_formats_are_checked(tmp_path):
    check_channels(np.zeros((2, 2, 4)), tmp_path / "a.png")
    check_channels(np.zeros((2, 2, 21)), tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"1 or 3 channels for .jpg \(got 4, with alpha"):
        check_channels(np.zeros((2, 2, 4)), tmp_path / "a.jpg")
    with pytest.raises(ValueError, match=r"1 to 4 channels \(got 21\); write to .npy"):
        check_channels(np.zeros((2, 2, 21)), tmp_path / "a.png")
    check_range(np.full((2, 2, 1), 5.0), tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"from 0 to 1 for a picture \(got 0 to 5\)"):
        check_range(np.full((2, 2, 1), 5.0), tmp_path / "a.png")


def test_sixteen_bits_stay(tmp_path):
    deep = (np.arange(12, dtype=np.uint16) * 5000).reshape(3, 4)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    write_image(deep[..., None] / 65535, tmp_path / "out.png", tmp_path / "deep.png")
    with Image.open(tmp_path / "out.png") as picture:
        assert np.array_equal(np.asarray(picture), deep)


def test_tensors_on_a_device():
    image = np.random.default_rng(0).random((3, 4, 2)).astype(np.float32)
    shapes = []

    def function(x):
        shapes.append(tuple(x.shape))
        return x + 1

    assert np.array_equal(compute_on("cpu", function, image), image + 1)
    assert np.array_equal(compute_on("cpu:0", function, image), image + 1)
    assert shapes == [(3, 4, 2), (2, 3, 4)]
