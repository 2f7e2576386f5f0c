import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.ops import boxes


def dense(lattice, coarse):
    """The same by a dictionary of grid coordinates."""
    place = {tuple(row): i for i, row in enumerate(coarse.coordinate.tolist())}
    rows = []
    for *grid, graph in lattice.coordinate.tolist():
        below = [c // 2 for c in grid]
        above = [c - b for c, b in zip(grid, below, strict=True)]
        rows.append([place.get((*end, graph), -1) for end in (below, above)])
    return torch.tensor(rows, dtype=torch.int32).view(-1, 2)


@pytest.mark.parametrize("scale", [3.0, 1e6])  # codes of one word, and of several from d = 4 on
@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
def test_dictionary(dim, scale):
    generator = torch.Generator().manual_seed(dim)
    feature = scale * torch.randn(50, dim, generator=generator, dtype=torch.float64)
    batch = torch.randint(0, 3, (50,), generator=generator)
    lattice, coarse = Lattice.build(feature, batch), Lattice.build(feature / 2, batch)
    arguments = (lattice.code, lattice.box, coarse.code, coarse.box)
    assert torch.equal(ops.midpoints(*arguments), dense(lattice, coarse))
    few = Lattice.build(feature[:20] / 2, batch[:20])
    found = ops.midpoints(lattice.code, lattice.box, few.code, few.box)
    assert torch.equal(found, dense(lattice, few)) and (found == -1).any()


def test_words_differ():
    """The box of the fine lattice needs two words, that of the coarse one a single word."""
    feature = torch.tensor([[0.0] * 3, [1.0] * 3, [1 / 3] * 3], dtype=torch.float64)
    words = set()
    for exponent in range(16, 26):
        lattice = Lattice.build(feature * 2**exponent)
        coarse, at = lattice.coarsen()
        words.add((lattice.code.shape[1], coarse.code.shape[1]))
        assert torch.equal(at.vertex, dense(lattice, coarse))
    assert words == {(1, 1), (2, 1), (2, 2)}


def test_registered(check):
    lattice = Lattice.build(torch.rand(20, 3) * 5)
    coarse, _ = lattice.coarsen()
    arguments = (lattice.code, lattice.box, coarse.code, coarse.box)
    check.registered(torch.ops.permutogeo.midpoints.default, arguments)
    check.unchanged(ops.midpoints, *arguments)
    check.layouts(ops.midpoints, *arguments)


def test_empty():
    box = boxes.make([0] * 2, [0] * 2, 1)
    code = torch.empty(0, 1, dtype=torch.int64)
    assert ops.midpoints(code, box, code, box).shape == (0, 2)
