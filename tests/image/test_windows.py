"""Windows give the result of the whole image."""

import numpy as np
import pytest
import torch

from permutogeo.image import bilateral_filter, joint_bilateral_upsample, windows


def scene(height=24, width=30, channels=1, seed=0):
    """A guide of two shaded regions with some noise, ``[H, W, G]`` float64 in [0, 1]."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    guide = np.where(x + 0.4 * y < 0.6 * width, 0.25, 0.7)[..., None] + 0.004 * y[..., None]
    return (guide + rng.normal(0, 0.01, (height, width, channels))).clip(0, 1)


def reduced(image, factor):
    """Means over blocks, some cut off, ``[ceil(H / f), ceil(W / f), C]``."""
    height, width = image.shape[:2]
    return np.array(
        [
            [image[y : y + factor, x : x + factor].mean((0, 1)) for x in range(0, width, factor)]
            for y in range(0, height, factor)
        ]
    )


@pytest.mark.parametrize(("factor", "sigmas"), [(1, (2.0, 0.2)), (4, (3.0, 0.05)), (3, (5.0, 0.3))])
def test_windows_give_what_the_whole_gives(monkeypatch, factor, sigmas):
    guide = np.random.default_rng(0).random((61, 83, 2)) * 0.2 + scene(61, 83)
    image = reduced(np.random.default_rng(1).random((61, 83, 2)), factor)
    whole = joint_bilateral_upsample(image, guide, *sigmas)
    monkeypatch.setattr(windows, "MAX_WINDOW_PIXELS", 30**2)
    counts = []
    filtered = windows.gaussian_filter
    monkeypatch.setattr(
        windows,
        "gaussian_filter",
        lambda x, *arguments, **options: (
            counts.append(len(x)) or filtered(x, *arguments, **options)
        ),
    )
    np.testing.assert_allclose(joint_bilateral_upsample(image, guide, *sigmas), whole, atol=1e-12)
    assert len(counts) > 3 and max(counts) < image[..., 0].size


@pytest.mark.parametrize("factor", [1, 2, 7, 16])
@pytest.mark.parametrize(
    ("height", "width", "sigma"), [(4000, 6000, 8.0), (4000, 6000, 66.0), (301, 9000, 3.0)]
)
def test_windows_cover_the_image_once_in_bounded_size(height, width, sigma, factor):
    seen = np.zeros((height, width), np.uint8)
    most = 2**20
    for window in windows.windows(height, width, sigma, factor, most):
        seen[window.inner] += 1
        inner, outer = (
            np.array([[side.start, side.stop] for side in sides])
            for sides in (window.inner, window.outer)
        )
        assert (outer[:, 0] % factor == 0).all()
        reach = np.clip(inner + np.array([-4, 4]) * sigma, 0, [[height], [width]])
        reach = reach.clip(0)
        reach = np.minimum(reach, [[height], [width]])
        assert (outer[:, 0] <= reach[:, 0]).all() and (outer[:, 1] >= reach[:, 1]).all()
        assert np.diff(outer, axis=1).prod() <= 1.2 * most
    assert (seen == 1).all()


def test_only_small_bandwidths_are_called_small(monkeypatch):
    image = np.random.default_rng(0).random((8, 9, 3))
    with pytest.raises(ValueError, match="'sigma_color' large enough for 8 x 9 pixels"):
        bilateral_filter(image, 2, 1e-12)

    def fail(*arguments, **options):
        raise ValueError("something else")

    monkeypatch.setattr(windows, "gaussian_filter", fail)
    with pytest.raises(ValueError, match=r"^something else$"):
        bilateral_filter(image, 2, 0.1)


def test_bandwidth_without_bound(monkeypatch):
    image = torch.rand(1, 20, 30, dtype=torch.float64)
    whole = bilateral_filter(image, float("inf"), 0.2)
    monkeypatch.setattr(windows, "MAX_WINDOW_PIXELS", 10**2)
    torch.testing.assert_close(bilateral_filter(image, float("inf"), 0.2), whole)
