"""Color palette of labels and colormap of errors."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

NUM_VOC_COLORS = 21
# In turns.
GOLDEN_ANGLE = (3.0 - 5.0**0.5) / 2.0
# Saturation and value alternate, so that neighboring hues differ in more than hue.
TONES = ((0.55, 0.95), (0.85, 0.75), (0.40, 0.70))

# From the color of a plain mesh to dark violet. The lightness decreases monotonically, so that the
# order does not depend on hue.
ERROR_STOPS = ("cad3db", "e8c973", "e69d42", "d7663a", "b63a47", "822358", "4d1858")
CLAY = np.array([0xCA, 0xD3, 0xDB], np.uint8)


def _voc_color(label: int) -> tuple[int, int, int]:
    """Return the color of a Pascal VOC label: its bits, interleaved over the channels."""
    channels = [0, 0, 0]
    for place in range(8):
        for channel in range(3):
            channels[channel] |= (label >> (3 * place + channel) & 1) << (7 - place)
    return channels[0], channels[1], channels[2]


def _golden_angle_color(step: int) -> tuple[int, int, int]:
    saturation, value = TONES[step % len(TONES)]
    red, green, blue = colorsys.hsv_to_rgb(step * GOLDEN_ANGLE % 1.0, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def palette(count: int) -> Bytes:
    r"""Returns label colors: those of Pascal VOC for the first 21, then hues a golden angle apart.

    Args:
        count: Number of colors.

    Shapes:
        - output: :math:`(count, 3)`, uint8

    Example:
        >>> from permutogeo.viz import palette
        >>> palette(3)
        array([[  0,   0,   0],
               [128,   0,   0],
               [  0, 128,   0]], dtype=uint8)
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        raise ValueError(f"palette: Expected 'count' as an integer >= 0 (got {count!r})")
    first = [_voc_color(label) for label in range(min(int(count), NUM_VOC_COLORS))]
    others = [_golden_angle_color(step) for step in range(int(count) - NUM_VOC_COLORS)]
    return np.array(first + others, np.uint8).reshape(-1, 3)


def error_ramp(steps: int = 256) -> Bytes:
    """Return the error colormap from 0 to the largest error, ``[steps, 3]``."""
    stops = np.array([list(bytes.fromhex(stop)) for stop in ERROR_STOPS], np.float64)
    place = np.linspace(0.0, len(stops) - 1.0, steps)
    channels = [np.interp(place, np.arange(len(stops)), stops[:, c]) for c in range(3)]
    return np.rint(np.stack(channels, axis=1)).astype(np.uint8)
