"""Reach of lattice filters against impulse responses."""

import pytest
import torch

from permutogeo.lattice import Lattice
from permutogeo.ops.stencils import stencil
from permutogeo.tiles import lattice_reach


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_impulse_response_is_wider(dim):
    """Dense points, so that all lattice points between them are occupied."""
    generator = torch.Generator().manual_seed(0)
    feature = torch.rand(6000, dim, generator=generator, dtype=torch.float64) * 12 - 6
    feature[0] = 0.05
    lattice = Lattice.build(feature)
    impulse = torch.zeros(6000, 1, dtype=torch.float64)
    impulse[0] = 1
    distance = torch.linalg.vector_norm(feature - feature[0], dim=1)
    splatted = lattice.splat(impulse)
    for radius, response in (
        (None, lattice.blur(splatted)),
        (1, lattice.convolve(splatted, torch.ones(len(stencil(dim, 1)), 1, 1).double())),
    ):
        reached = distance[lattice.slice(response)[:, 0] != 0].max()
        assert 0.5 * lattice_reach(dim, radius) < reached <= lattice_reach(dim, radius)


def test_arguments():
    assert lattice_reach(3, radius=2) > lattice_reach(3, radius=1) > lattice_reach(3, radius=0)
    with pytest.raises(ValueError, match=r"Expected 'dim' of at most 8 \(got 9\)"):
        lattice_reach(9)
    with pytest.raises(ValueError, match="Expected 'radius' of at least 0"):
        lattice_reach(3, radius=-1)
