import torch

from permutogeo import Lattice
from permutogeo.models.blocks import LatticeBlock


def test_block_is_residual_where_sizes_agree():
    lattice = Lattice.build(torch.rand(50, 2) * 4)
    values = torch.randn(lattice.num_vertices, 4)
    block = LatticeBlock(4, 4, dim=2, num_layers=1)
    torch.nn.init.zeros_(block.convs[0].filter_weight)
    torch.testing.assert_close(block(values, lattice), values.relu())
    wider = LatticeBlock(4, 6, dim=2, num_layers=2)
    assert wider(values, lattice).shape == (lattice.num_vertices, 6)
