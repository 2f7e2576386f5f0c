import numpy as np
import pytest
import torch

import permutogeo as pg
from permutogeo.ops import stencils
from permutogeo.testing import reference


@pytest.mark.parametrize(
    ("dim", "radius", "taps"),
    [
        (1, 0, 1),
        (1, 1, 3),
        (2, 1, 7),
        (2, 2, 19),
        (3, 1, 15),
        (3, 2, 65),
        (4, 1, 31),
        (4, 2, 211),
        (5, 1, 63),
        (5, 2, 665),
    ],
)
def test_counts(dim, radius, taps):
    offsets = pg.stencil(dim, radius)
    assert offsets.shape == (taps, dim + 1)
    assert offsets.dtype == torch.int64
    assert stencils.num_taps(dim, radius) == taps


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("radius", [0, 1, 2])
def test_order_is_the_reference(dim, radius):
    offsets = pg.stencil(dim, radius)
    np.testing.assert_array_equal(offsets.numpy(), reference.stencil(dim, radius))
    assert not offsets[0].any()
    assert not offsets.sum(1).any()
    assert (offsets % (dim + 1) == offsets[:, :1] % (dim + 1)).all()
    assert len(offsets.unique(dim=0)) == len(offsets)


def test_order_is_written_out_once():
    assert pg.stencil(1).tolist() == [[0, 0], [-1, 1], [1, -1]]
    assert pg.stencil(2)[:3].tolist() == [[0, 0, 0], [-1, -1, 2], [-1, 2, -1]]


def test_radius_defaults_to_one():
    assert torch.equal(pg.stencil(3), pg.stencil(3, 1))


def test_result_is_the_callers_own():
    pg.stencil(2).zero_()
    assert pg.stencil(2).any()


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
@pytest.mark.parametrize("radius", [1, 2])
def test_axis_stencil(dim, radius):
    grid = stencils.grid_offsets(dim, radius, 1, "axis")
    expected = reference.axis_stencil(dim, radius)
    assert stencils.num_taps(dim, radius, "axis") == len(expected)
    keys = (dim + 1) * grid - grid.sum(1, keepdim=True)
    np.testing.assert_array_equal(keys.numpy(), expected[:, :-1])


@pytest.mark.parametrize("kind", ["full", "axis"])
@pytest.mark.parametrize(("dim", "radius"), [(1, 1), (1, 3), (2, 2), (3, 1), (5, 1)])
def test_opposite(dim, radius, kind):
    grid = stencils.grid_offsets(dim, radius, 1, kind)
    opposite = stencils.opposite(dim, radius, kind)
    assert torch.equal(grid[opposite], -grid)
    assert torch.equal(opposite[opposite], torch.arange(len(grid)))


@pytest.mark.parametrize(("dim", "radius"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)])
def test_gaussian_holds_the_blur(dim, radius):
    """Confined to the stencil's own points; at radius 2 nothing of the blur lies outside them."""
    ours = stencils.gaussian(dim, radius)
    assert ours.dtype == torch.float64
    assert ours[0] == 1
    opposite = stencils.opposite(dim, radius, "full")
    # Walking through the stencil's points alone is not symmetric in the order of the axes.
    if radius == 2:
        np.testing.assert_allclose(ours, reference.gaussian_stencil(dim, radius), rtol=1e-12)
        torch.testing.assert_close(ours[opposite], ours)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pg.stencil(0), ValueError, r"'dim' of at least 1 \(got 0\)"),
        (lambda: pg.stencil(-3), ValueError, r"'dim' of at least 1 \(got -3\)"),
        (lambda: pg.stencil(2, -1), ValueError, r"'radius' of at least 0 \(got -1\)"),
        (
            lambda: stencils.num_taps(2, 1, "round"),
            ValueError,
            r"'stencil' to be 'full' or 'axis' \(got 'round'\)",
        ),
        (lambda: pg.stencil(20), ValueError, r"2097151 taps.*stencil='axis' \(43 taps\)"),
        (lambda: pg.stencil(200), ValueError, r"\d{40,} taps.*stencil='axis' \(403 taps\)"),
        (lambda: pg.stencil(2, 1.5), (TypeError, ValueError), "'radius'"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_axis_stencil_too_large_is_not_called_full():
    with pytest.raises(ValueError) as caught:
        pg.Lattice.build(torch.zeros(1, 3)).neighbors(10**6, stencil="axis")
    assert "full" not in str(caught.value)
    assert "use stencil='axis'" not in str(caught.value)
