"""BilateralTransformer: blocks of attention."""

import torch

from permutogeo import Lattice
from permutogeo.models import BilateralTransformer
from permutogeo.models.blocks import AttentionBlock, LatticeBlock
from permutogeo.nn import LatticeAttention, LatticeNorm


def heads(model):
    return [layer.heads for layer in model.modules() if isinstance(layer, LatticeAttention)]


def test_attention_is_on_coarse_levels():
    model = BilateralTransformer(4, 32, 5, dim=3, depth=2)
    assert heads(model.downs) == [4, 8] and heads(model.ups) == [4]
    assert isinstance(model.downs[0], LatticeBlock) and isinstance(model.ups[0], LatticeBlock)


def test_a_single_level_has_attention():
    assert heads(BilateralTransformer(4, 32, 5, dim=3, depth=0)) == [2]


def grid():
    """The lattice of a dense square, and the neighbors of its inner vertices."""
    place = torch.arange(0, 6, 0.25, dtype=torch.float64)
    lattice = Lattice.build(torch.cartesian_prod(place, place))
    neighbors = lattice.neighbors()
    inner = (neighbors >= 0).all(1)
    # The neighbors of a vertex in the middle are inner vertices too.
    middle = next(row for row in neighbors[inner].tolist() if inner[row].all())
    return lattice, middle


def test_new_blocks_tell_directions_apart():
    """Attention alone does not: its weights are equal at the start."""
    torch.manual_seed(0)
    lattice, (center, *around) = grid()
    values = torch.zeros(lattice.num_vertices, 8, dtype=torch.float64)
    values[center] = torch.randn(8, dtype=torch.float64)
    block = AttentionBlock(8, 8, dim=2, num_layers=1).double()
    seen = block(values, lattice)[around]
    apart = (seen - seen[0]).detach().abs().amax(1)[1:]
    assert float(apart.min()) > 0.01
    with torch.no_grad():
        block.convs[0].filter_weight.zero_()
    seen = block(values, lattice)[around]
    torch.testing.assert_close(seen, seen[:1].expand_as(seen))


def test_blocks_end_in_a_norm():
    lattice, _ = grid()
    values = 100 * torch.randn(lattice.num_vertices, 8, dtype=torch.float64) + 50
    block = AttentionBlock(8, 4, dim=2, num_layers=2).double()
    out = block(values, lattice)
    torch.testing.assert_close(LatticeNorm(4, dim=2).double()(out, lattice), out, atol=1e-3, rtol=0)
