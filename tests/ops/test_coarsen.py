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
def test_lattice_of_half_the_features(dim, scale):
    generator = torch.Generator().manual_seed(dim)
    feature = scale * torch.randn(50, dim, generator=generator, dtype=torch.float64)
    batch = torch.randint(0, 3, (50,), generator=generator)
    lattice, coarse = Lattice.build(feature, batch), Lattice.build(feature / 2, batch)
    for _ in range(3):
        code, box, vertex = ops.coarsen(lattice.code, lattice.box)
        assert torch.equal(boxes.decode(code, box), coarse.coordinate)
        assert torch.equal(vertex, dense(lattice, coarse)) and (vertex >= 0).all()
        lattice, coarse = coarse, Lattice.build(coarse.feature / 2, batch)


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
    arguments = (lattice.code, lattice.box)
    check.registered(torch.ops.permutogeo.coarsen.default, arguments)
    check.unchanged(ops.coarsen, *arguments)
    check.layouts(ops.coarsen, *arguments)


def test_empty():
    box = boxes.make([0] * 2, [0] * 2, 1)
    code, _, vertex = ops.coarsen(torch.empty(0, 1, dtype=torch.int64), box)
    assert code.shape == (0, 1) and vertex.shape == (0, 2)
