"""The lattice as graphs, for the layers of PyTorch Geometric."""

import pytest
import torch
from torch_geometric.nn import FastRGCNConv, GraphConv, SimpleConv

from permutogeo import Lattice

DOUBLE = torch.float64


@pytest.mark.parametrize("graphs", [None, 2])
def test_incidence_graph(cloud, graphs):
    feature, batch = cloud(graphs=graphs)
    lattice = Lattice.build(feature.requires_grad_(), batch)
    edge_index, edge_weight = lattice.incidence_graph()
    assert edge_index.shape == (2, 60 * 4) and edge_index.dtype == torch.int64
    assert edge_weight.shape == (60 * 4,) and edge_weight.requires_grad
    x = torch.randn(60, 3, dtype=DOUBLE)
    size = (60, lattice.num_vertices)
    scattered = x.new_zeros(size[1], 3).index_add(
        0, edge_index[1], edge_weight.unsqueeze(1) * x[edge_index[0]]
    )
    torch.testing.assert_close(lattice.splat(x), scattered)
    layer = SimpleConv(aggr="sum")
    torch.testing.assert_close(layer((x, None), edge_index, edge_weight, size), scattered)
    sliced = layer((scattered, None), edge_index.flip(0), edge_weight, size[::-1])
    torch.testing.assert_close(lattice.slice(scattered), sliced)


def test_incidence_graph_feeds_a_learned_layer():
    lattice = Lattice.build(torch.rand(30, 2) * 4)
    edge_index, edge_weight = lattice.incidence_graph()
    layer = GraphConv((3, 3), 7)
    x, values = torch.randn(30, 3), torch.zeros(lattice.num_vertices, 3)
    out = layer((x, values), edge_index, edge_weight)
    torch.testing.assert_close(out, layer.lin_rel(lattice.splat(x)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"radius": 2}, {"stencil": "axis"}])
def test_neighbor_graph_is_a_relational_convolution(cloud, options):
    lattice = Lattice.build(*cloud(graphs=2))
    edge_index, edge_type = lattice.neighbor_graph(**options)
    neighbors = lattice.neighbors(**options)
    taps = neighbors.shape[1]
    assert edge_index.shape == (2, int((neighbors >= 0).sum())) and edge_type.dtype == torch.int64
    assert torch.equal(neighbors[edge_index[1], edge_type].long(), edge_index[0])
    layer = FastRGCNConv(4, 5, taps, aggr="add", root_weight=False, bias=False).double()
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    torch.testing.assert_close(
        lattice.convolve(values, layer.weight, **options), layer(values, edge_index, edge_type)
    )
