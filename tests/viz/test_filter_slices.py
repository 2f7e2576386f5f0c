import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.ops import stencils
from permutogeo.testing.reference import ReferenceLattice, stencil
from permutogeo.viz import filter_slices
from permutogeo.viz.filter_slices import _slice, _stencil_lattice


@pytest.mark.parametrize(("dim", "radius"), [(1, 2), (2, 2), (3, 1), (5, 1)])
def test_points_of_the_stencil_lie_on_its_keys(dim, radius):
    """The reference elevates the positions of the taps in the picture to their offsets."""
    lattice, reach = _stencil_lattice(dim, radius)
    reference = ReferenceLattice(lattice.feature.numpy())
    nearest = reference.vertex[np.arange(lattice.num_points), reference.weight.argmax(1)]
    np.testing.assert_array_equal(reference.key[nearest], stencil(dim, radius))
    np.testing.assert_allclose(reference.weight.max(1), 1.0, atol=1e-9)
    assert lattice.feature.abs().max() < reach


def test_slice_is_the_filter_of_an_impulse():
    """A point at 0 that is filtered and read elsewhere, by the reference."""
    taps = torch.rand(65, dtype=torch.float64)
    lattice, _ = _stencil_lattice(3, 2)
    ticks = torch.linspace(-1.5, 1.5, 9, dtype=torch.float64)
    plane = _slice(lattice, taps, ticks, 3, (0, 2), 1, 0.4)
    places = np.array([[x, 0.4, z] for z in ticks.tolist() for x in ticks.tolist()])
    reference, at = ReferenceLattice.build_bipartite(
        np.zeros((1, 3)), np.concatenate([places, lattice.feature.numpy()])
    )
    # The value at a vertex comes from where the offset leads, so the impulse goes the other way.
    values = reference.convolve_shared(
        reference.splat(np.ones((1, 1))), taps.numpy(), -stencil(3, 2)
    )
    expected = reference.slice(values, at)[: len(places)]
    np.testing.assert_allclose(plane.ravel(), expected.ravel(), atol=1e-9)


def test_gaussian_is_drawn_red_at_its_centre_and_white_far_away():
    picture = np.asarray(filter_slices({"Gaussian": stencils.gaussian(2, 2)}, 2)).astype(int)
    red = picture[..., 0] - picture[..., 2]
    assert (red > 60).sum() > 100
    assert (np.abs(picture[..., 2] - picture[..., 0]) <= 10).mean() > 0.3


def test_two_filters_have_their_difference_below():
    gaussian = stencils.gaussian(3, 2)
    both = {"Gaussian": gaussian, "learned": gaussian.numpy() ** 2}
    with_difference = filter_slices(both, 3, at=(0.0,))
    without = filter_slices(both, 3, at=(0.0,), difference=False)
    assert with_difference.height > 1.3 * without.height
    blue = np.asarray(with_difference).astype(int)
    assert ((blue[..., 2] - blue[..., 0]) > 60)[
        2 * blue.shape[0] // 3 :, : -blue.shape[1] // 3
    ].any()


def test_slices_of_five_features(tmp_path):
    path = tmp_path / "filters.png"
    names = ["x", "y", "r", "g", "b"]
    taps = {"Gaussian": stencils.gaussian(5, 1)}
    assert filter_slices(taps, 5, 1, path, axes=(0, 2), along=3, at=(0, 1), names=names) == path
    with Image.open(path) as written:
        assert written.width > 1.5 * written.height


def test_errors(tmp_path):
    gaussian = {"a": stencils.gaussian(3, 2)}
    with pytest.raises(ValueError, match=r"Expected 'a' of shape \[15\], the taps of radius 1"):
        filter_slices(gaussian, 3, 1)
    with pytest.raises(ValueError, match="Expected at least one filter"):
        filter_slices({}, 3)
    with pytest.raises(ValueError, match="Expected two 'axes' below 3"):
        filter_slices(gaussian, 3, axes=(0, 3))
    with pytest.raises(ValueError, match=r"Expected 'along' in \[2\] .got 1"):
        filter_slices(gaussian, 3, along=1)
    with pytest.raises(ValueError, match="Expected one of"):
        filter_slices(gaussian, 3, 2, tmp_path / "filters.pdf")
