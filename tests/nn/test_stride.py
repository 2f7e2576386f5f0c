"""Edges between a lattice and the lattice of half the resolution."""

import pytest
import torch

from permutogeo import Lattice, get_workspace, set_workspace, stencil
from permutogeo.nn import LatticePool, LatticeUnpool
from permutogeo.nn.stride import StrideEdges


def vertices_around(lattice, coarse):
    """For each coarse vertex the fine one at each tap, by a dictionary of keys."""
    keys = torch.cat([lattice.vertex_batch[:, None], lattice.key.long()], 1)
    place = {tuple(key): i for i, key in enumerate(keys.tolist())}
    for graph, key in zip(coarse.vertex_batch.tolist(), coarse.key.long(), strict=True):
        fine = (2 * key + offset[:-1] for offset in stencil(lattice.dim))
        yield [place.get((graph, *each.tolist()), -1) for each in fine]


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_edges_match_a_dictionary(cloud, dim):
    data = cloud(20, dim=dim, graphs=2)
    coarse, at = data.lattice.coarsen()
    edges = StrideEdges.between(data.lattice, coarse, at)
    expected = {
        (fine, row, tap)
        for row, around in enumerate(vertices_around(data.lattice, coarse))
        for tap, fine in enumerate(around)
        if fine >= 0
    }
    (fine, row), tap = edges.edges()
    assert set(zip(fine.tolist(), row.tolist(), tap.tolist(), strict=True)) == expected
    assert len(tap) == len(expected)
    (source, target), begin, _ = edges.by_tap()
    for k in range(edges.num_taps):
        part = slice(int(begin[k]), int(begin[k + 1]))
        pairs = set(zip(source[part].tolist(), target[part].tolist(), strict=True))
        assert pairs == {(i, j) for i, j, tap in expected if tap == k}


def test_edges_are_cached(cloud):
    data = cloud()
    coarse, at = data.lattice.coarsen()
    first = StrideEdges.between(data.lattice, coarse, at)
    assert StrideEdges.between(data.lattice, coarse, at) is first


def test_a_given_coarse_lattice(cloud):
    data = cloud()
    coarse, at = data.lattice.coarsen()
    out, *same = LatticePool(4, 4, 3)(data.values, data.lattice, coarse, at)
    assert same == [coarse, at]
    assert torch.equal(out, LatticePool(4, 4, 3)(data.values, data.lattice)[0])


def test_layers_share_the_coarse_lattice(cloud):
    data = cloud()
    first, second = LatticePool(4, 4, 3), LatticePool(4, 6, 3, "learned").double()
    _, *lattices = first(data.values, data.lattice)
    assert second(data.values, data.lattice)[1:] == tuple(lattices)


@pytest.mark.parametrize("dim", [3, 5])
def test_learned_working_memory_is_bounded(dim, monkeypatch):
    """So many rows at a time, there and back, and no more however many taps there are."""
    lattice = Lattice.build(torch.rand(4000, dim) * 8)
    values = torch.rand(lattice.num_vertices, 16, requires_grad=True)
    layer = LatticePool(16, 16, dim, "learned")
    expected = layer(values, lattice)[0]
    gathered, original = [], torch.index_select

    def watch(tensor, axis, index, out):
        gathered.append(index.numel() * tensor.shape[1] * tensor.element_size())
        return original(tensor, axis, index, out=out)

    monkeypatch.setattr(torch, "index_select", watch)
    before = get_workspace()
    try:
        set_workspace(2**14)
        out, coarse, at = layer(values, lattice)
        back = LatticeUnpool(16, 16, dim, "learned")(out, lattice, coarse, at)
        back.square().sum().backward()
    finally:
        set_workspace(before)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    assert len(gathered) > 100 and max(gathered) <= 2**14
