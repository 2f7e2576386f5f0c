import numpy as np
import pytest
import torch

from permutogeo.image import bilateral_refine, colorize, propagate_labels
from permutogeo.solvers import bilateral_solve

RNG = np.random.default_rng(0)


def halves(height=24, width=32):
    image = np.full((height, width, 3), 60, np.uint8)
    image[:, width // 2 :] = 200
    return image


def test_refine_fills_along_the_guide():
    guide = halves()
    depth = np.where(guide[..., 0] == 60, 1.0, 3.0)
    confidence = (RNG.random(depth.shape) < 0.1).astype(float)
    broken = np.where(confidence > 0, depth, np.nan)
    np.testing.assert_allclose(bilateral_refine(broken, guide, confidence), depth, atol=1e-3)
    kept = bilateral_refine(depth + RNG.normal(0, 0.1, depth.shape), guide, confidence, hard=True)
    assert kept.shape == depth.shape


def test_refine_is_the_solver_on_pixels():
    image, guide = torch.rand(2, 1, 6, 7), torch.rand(2, 3, 6, 7)
    confidence = torch.rand(2, 6, 7)
    out = bilateral_refine(image, guide, confidence, 2.0, 0.3, 1.5)
    for i in range(2):
        y, x = torch.meshgrid(torch.arange(6.0), torch.arange(7.0), indexing="ij")
        pos = torch.stack([x, y], -1).view(-1, 2)
        feature = torch.cat([pos / 2, guide[i].flatten(1).T / 0.3], 1)
        alone = bilateral_solve(image[i].view(-1, 1), confidence[i].view(-1), feature, None, 1.5)
        torch.testing.assert_close(out[i].view(-1, 1), alone, rtol=1e-3, atol=1e-3)


def test_colorize_spreads_scribbles():
    image = halves()
    gray = image[..., 0]
    scribbles, mask = np.zeros((24, 32, 3), np.uint8), np.zeros((24, 32), bool)
    mask[3, 4:8], mask[20, 25] = True, True
    scribbles[3, 4:8], scribbles[20, 25] = (100, 50, 40), (180, 205, 230)
    out = colorize(gray, scribbles, mask)
    assert out.dtype == np.uint8 and out.shape == (24, 32, 3)
    luma = out @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(luma, gray, atol=1.5)
    assert (out[:, :16, 0] > out[:, :16, 2] + 30).all()
    assert (out[:, 16:, 2] > out[:, 16:, 0] + 30).all()
    tensor = colorize(
        torch.from_numpy(gray)[None] / 255,
        torch.from_numpy(scribbles).permute(2, 0, 1) / 255,
        torch.from_numpy(mask),
    )
    np.testing.assert_allclose(tensor.permute(1, 2, 0) * 255, out, atol=1)


def test_labels():
    image, label = halves(), np.full((24, 32), -1, np.int16)
    label[0, 0], label[23, 31] = 4, 2
    found = propagate_labels(image, label)
    assert found.dtype == np.int64
    assert (found[:, :16] == 4).all() and (found[:, 16:] == 2).all()
    pair = torch.from_numpy(np.stack([image, image[:, ::-1]])).permute(0, 3, 1, 2)
    labels = torch.from_numpy(np.stack([label, label]))
    both = propagate_labels(pair, labels)
    assert np.array_equal(both[0], found) and (both[1, :, :16] == 4).all()
    assert (label[1:23] == -1).all()


BAD = [
    (lambda: bilateral_refine(np.zeros((4, 4)), halves()), ValueError, "'guide' for 1 images"),
    (
        lambda: bilateral_refine(halves(), halves(), np.ones((3, 3))),
        ValueError,
        r"'confidence' of shape \[24, 32\] \(got \[3, 3\]\)",
    ),
    (lambda: bilateral_refine(halves(), halves(), sigma_pos=0), ValueError, "'sigma_pos'"),
    (lambda: propagate_labels(halves(), np.zeros((24, 32))), TypeError, "'label' of integers"),
    (
        lambda: propagate_labels(halves(), np.full((24, 32), -1)),
        ValueError,
        "at least one label",
    ),
    (
        lambda: colorize(halves()[..., :2], halves(), np.ones((24, 32), bool)),
        ValueError,
        "'image' of 1 or 3 channels",
    ),
    (
        lambda: colorize(halves(), halves(), np.zeros((24, 32), bool)),
        ValueError,
        "at least one known point",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
