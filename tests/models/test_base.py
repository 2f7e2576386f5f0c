import pytest
import torch

from permutogeo import Lattice
from permutogeo.models import BilateralNet
from permutogeo.models.base import LatticeBlock, splat_mean


def test_splat_mean_keeps_constants_and_empty_vertices_are_zero():
    feature = torch.cat([torch.rand(50, 2) * 4, torch.zeros(1, 2)])
    lattice = Lattice.build(feature)
    means = splat_mean(lattice, torch.full((51, 3), 2.5))
    mass = lattice.splat(torch.ones(51, 1))[:, 0]
    torch.testing.assert_close(means[mass > 0], torch.full_like(means[mass > 0], 2.5))
    assert not means[mass == 0].any()


def test_block_is_residual_where_sizes_agree():
    lattice = Lattice.build(torch.rand(50, 2) * 4)
    values = torch.randn(lattice.num_vertices, 4)
    block = LatticeBlock(4, 4, dim=2, num_layers=1)
    torch.nn.init.zeros_(block.convs[0].filter_weight)
    torch.testing.assert_close(block(values, lattice), values.relu())
    wider = LatticeBlock(4, 6, dim=2, num_layers=2)
    assert wider(values, lattice).shape == (lattice.num_vertices, 6)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [((0, 8, 5, 3), "in_channels"), ((3, 8, 0, 3), "out_channels"), ((3, 8, 5, 0), "dim")],
)
def test_errors_of_sizes(sizes, name):
    with pytest.raises(ValueError, match=f"BilateralNet: Expected '{name}'"):
        BilateralNet(*sizes)
    with pytest.raises(ValueError, match="BilateralNet: Expected 'num_layers'"):
        BilateralNet(3, 8, 5, 3, num_layers=0)
