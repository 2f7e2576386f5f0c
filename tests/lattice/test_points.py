"""The lattice of a call: built, or checked against the points."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.lattice.points import check_lattice, resolve_lattice, scale_features


class Layer(torch.nn.Module):
    dim = 2


def test_built_from_features():
    feature, batch = torch.rand(9, 2), torch.arange(9) // 5
    lattice, at = resolve_lattice(feature, batch)
    assert at is None and lattice.feature is feature and lattice.batch is batch


def test_built_from_a_pair():
    lattice, at = resolve_lattice((torch.rand(9, 2), torch.rand(4, 2)))
    assert lattice.num_points == 9 and at.num_points == 4


def test_given():
    feature = torch.rand(9, 2)
    lattice = Lattice.build(feature)
    assert resolve_lattice(feature, None, lattice) == (lattice, None)
    assert resolve_lattice(None, None, lattice) == (lattice, None)
    pair = Lattice.build_bipartite(feature, feature[:3])
    assert resolve_lattice((feature, feature[:3]), None, pair) == pair


def test_given_with_other_points():
    lattice = Lattice.build(torch.zeros(9, 2))
    with pytest.raises(ValueError, match=r"^Expected 'lattice' built from the points of 'feature'"):
        resolve_lattice(torch.ones(9, 2), None, lattice)


def test_scaled_by_a_layer():
    feature = torch.rand(9, 2)
    lattice, _ = resolve_lattice(feature, layer=Layer(), scale=lambda f: f / 2)
    assert torch.equal(lattice.feature, feature / 2)
    assert scale_features(Layer(), None, lattice, None) is None


def test_errors_carry_the_name_of_the_layer():
    with pytest.raises(ValueError, match=r"^Layer: Expected 'feature' of shape \[N, 2\]"):
        resolve_lattice(torch.rand(9, 3), layer=Layer())
    with pytest.raises(
        ValueError, match=r"^Layer: Expected 'lattice' of dim=2 \(got one of dim=3\)"
    ):
        check_lattice(Layer(), "lattice", Lattice.build(torch.rand(4, 3)))
    with pytest.raises(TypeError, match=r"^Layer: Expected 'lattice' to be a Lattice \(got int\)"):
        check_lattice(Layer(), "lattice", 3)


@pytest.mark.parametrize("change", ["feature", "batch"])
def test_given_after_a_change_in_place(change):
    feature, batch = torch.rand(9, 2), torch.zeros(9, dtype=torch.int64)
    lattice = Lattice.build(feature, batch)
    resolve_lattice(feature, batch, lattice)
    {"feature": feature, "batch": batch}[change].add_(5)
    message = r"Expected 'feature' as it was when the lattice was built \(it was changed in place"
    with pytest.raises(ValueError, match=f"^{message}"):
        resolve_lattice(feature, batch, lattice)
    with pytest.raises(ValueError, match=f"^{message}"):
        resolve_lattice(None, None, lattice)
    with pytest.raises(ValueError, match=f"^Layer: {message}"):
        check_lattice(Layer(), "lattice", lattice)
