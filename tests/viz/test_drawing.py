"""Conversion to RGB, text that fits, and saving."""

import numpy as np
import pytest
from PIL import Image

from permutogeo.viz.drawing import check_picture_path, fit_text, save_picture, text_width, to_rgb


def test_channels_become_rgb():
    image = np.random.default_rng(0).random((4, 5, 4)).astype(np.float32)
    np.testing.assert_array_equal(to_rgb(image, "f"), image[..., :3])
    np.testing.assert_array_equal(to_rgb(image[..., :3], "f"), image[..., :3])
    gray = image[..., :1].repeat(3, axis=2)
    for same in (image[..., 0], image[..., :1], image[..., :2]):
        np.testing.assert_array_equal(to_rgb(same, "f"), gray)
    with pytest.raises(ValueError, match=r"^f: Expected an image of 1 to 4 channels .got 5"):
        to_rgb(np.zeros((4, 5, 5)), "f")


def test_limits_are_clipped():
    rgb = to_rgb(np.array([[1.0, 2.0, 3.0, 4.0]]), "f", limits=(2.0, 3.0))
    np.testing.assert_array_equal(rgb[0, :, 0], [0, 0, 1, 1])


def test_text_is_cut_to_fit():
    assert fit_text("two\n words", 12, 1000) == "two words"
    cut = fit_text("many words " * 20, 12, 100)
    assert cut.endswith("…") and 60 < text_width(cut, 12) <= 100
    assert fit_text("word", 12, 0) == "…"


def test_pictures_are_saved_or_returned(tmp_path):
    picture = Image.new("RGB", (3, 2))
    assert save_picture(picture, None) is picture
    assert save_picture(picture, tmp_path / "a.png") == tmp_path / "a.png"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    check_picture_path(None)
    check_picture_path("a.WEBP")
    with pytest.raises(ValueError, match="Expected one of"):
        check_picture_path("a.pdf")
