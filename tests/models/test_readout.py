import torch

from permutogeo import Lattice
from permutogeo.models.readout import readout, readout_of_task, readout_size, splat_mean


def test_splat_mean_keeps_constants_and_empty_vertices_are_zero():
    feature = torch.cat([torch.rand(50, 2) * 4, torch.zeros(1, 2)])
    lattice = Lattice.build(feature)
    means = splat_mean(lattice, torch.full((51, 3), 2.5))
    mass = lattice.splat(torch.ones(51, 1))[:, 0]
    torch.testing.assert_close(means[mass > 0], torch.full_like(means[mass > 0], 2.5))
    assert not means[mass == 0].any()


def test_mean_and_maximum_of_each_graph():
    values, graph = torch.randn(7, 3), torch.tensor([0, 0, 0, 2, 2, 2, 2])
    found = readout(values, graph, 3)
    for i in (0, 2):
        own = values[graph == i]
        torch.testing.assert_close(found[i], torch.cat([own.mean(0), own.amax(0)]))
    assert not found[1].any()  # a graph without points


def test_columns_of_each_task():
    feature, batch = torch.rand(40, 2) * 4, torch.arange(2).repeat_interleave(20)
    lattice, at = Lattice.build_bipartite(feature, feature[15:25], batch, batch[15:25])
    x = torch.randn(40, 3)
    whole = readout(x, batch, 2)
    assert torch.equal(readout_of_task(x, lattice, None, "graph", False), whole)
    assert torch.equal(readout_of_task(x, lattice, None, "point", False), x)
    found = readout_of_task(x, lattice, at, "point", True)
    assert found.shape == (10, readout_size(3, "point", True))
    assert torch.equal(found[:, 3:], whole[batch[15:25]])
