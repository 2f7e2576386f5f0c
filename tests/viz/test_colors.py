import numpy as np
import pytest

from permutogeo.viz import palette
from permutogeo.viz.colors import CLAY, error_ramp

# The colors of the Pascal VOC label images, aeroplane to tvmonitor after the black background.
VOC = """0 0 0, 128 0 0, 0 128 0, 128 128 0, 0 0 128, 128 0 128, 0 128 128, 128 128 128, 64 0 0,
192 0 0, 64 128 0, 192 128 0, 64 0 128, 192 0 128, 64 128 128, 192 128 128, 0 64 0, 128 64 0,
0 192 0, 128 192 0, 0 64 128"""


def test_palette_begins_with_the_colors_of_voc():
    expected = [[int(number) for number in color.split()] for color in VOC.split(",")]
    np.testing.assert_array_equal(palette(21), expected)


def test_colors_of_many_labels_differ():
    colors = palette(256)
    assert colors.shape == (256, 3) and colors.dtype == np.uint8
    assert len(np.unique(colors, axis=0)) == 256
    np.testing.assert_array_equal(palette(40), colors[:40])


def test_palette_of_none():
    assert palette(0).shape == (0, 3)


@pytest.mark.parametrize("count", [-1, 2.5, "3", True, None])
def test_palette_refuses(count):
    with pytest.raises(ValueError, match="Expected 'count' as an integer >= 0"):
        palette(count)


def test_errors_get_darker():
    """Without its hue, the scale still has an order: lightness falls at each step."""
    rgb2lab = pytest.importorskip("skimage.color").rgb2lab
    ramp = error_ramp(64)
    lightness = rgb2lab(ramp[None] / 255.0)[0, :, 0]
    assert (np.diff(lightness) < 0).all()
    np.testing.assert_array_equal(ramp[0], CLAY)
