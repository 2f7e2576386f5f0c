"""Points rounded as in pydensecrf, against the same operations in NumPy."""

import numpy as np
import pytest
import torch

from permutogeo.ops.single_precision import replicate_rounding


def by_numpy(feature):
    """Elevation in float32, an offset along each axis, and the projection in float64."""
    dim, count = feature.shape
    index = np.arange(1, dim + 1)
    width = float(np.float32(np.sqrt(2.0 / 3.0) * (dim + 1)))
    scale = (1.0 / np.sqrt(index * (index + 1)) * width).astype(np.float32)
    elevated, above = np.empty((dim + 1, count), np.float32), np.zeros(count, np.float32)
    for j in range(dim, 0, -1):
        step = feature[j - 1] * scale[j - 1]
        elevated[j] = above - np.float32(j) * step
        above = above + step
    elevated[0] = above
    shifted = elevated.astype(np.float64) - np.arange(dim + 1)[:, None] * 2.0**-32
    matrix = np.zeros((dim, dim + 1))
    for j in range(1, dim + 1):
        matrix[j - 1, :j], matrix[j - 1, j] = 1, -j
    return (matrix @ shifted).T * (np.sqrt(1.5 / (index * (index + 1.0))) / (dim + 1))


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("scale", [1, 50, 1e4])
def test_is_rounded_after_each_operation(dim, scale):
    feature = (np.random.default_rng(dim).random((dim, 20001)) * scale).astype(np.float32)
    got = replicate_rounding(feature)
    assert got.dtype == torch.float64
    # Rounding in float64 differs, that of float32 (1e-7) does not.
    np.testing.assert_allclose(got, by_numpy(feature), rtol=1e-13, atol=1e-13 * scale)
    assert np.abs(got.numpy() - feature.T).max() < 2e-6 * scale * dim


def test_rows_of_any_layout():
    feature = np.random.default_rng(0).random((50, 3)).astype(np.float32)
    expected = replicate_rounding(np.ascontiguousarray(feature.T))
    assert torch.equal(replicate_rounding(feature.T), expected)


def test_no_points():
    assert replicate_rounding(np.empty((2, 0), np.float32)).shape == (0, 2)
