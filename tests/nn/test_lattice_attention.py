"""Attention on the lattice, against a dense computation and PyG's message passing."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import LatticeAttention

DOUBLE = torch.float64


def make_layer(**options):
    layer = LatticeAttention(4, 6, dim=2, heads=2, **options).double()
    torch.nn.init.normal_(layer.tap_bias)
    return layer


@pytest.fixture
def lattice():
    return Lattice.build(torch.rand(80, 2, dtype=DOUBLE) * 5)


def dense(layer, values, neighbors, query):
    """The same, query by query and head by head."""
    asked, keys, held = layer.lin_query(query), layer.lin_key(values), layer.lin_value(values)
    width = layer.out_channels // layer.heads
    rows = []
    for i, row in enumerate(neighbors.tolist()):
        taps = [k for k, vertex in enumerate(row) if vertex >= 0]
        near = [row[k] for k in taps]
        parts = []
        for h in range(layer.heads):
            part = slice(h * width, (h + 1) * width)
            scores = keys[near][:, part] @ asked[i, part] / width**0.5 + layer.tap_bias[h, taps]
            parts.append(scores.softmax(0) @ held[near][:, part])
        rows.append(torch.cat(parts))
    return layer.lin_out(torch.stack(rows))


def test_str():
    assert str(make_layer()) == "LatticeAttention(4, 6, dim=2, heads=2)"
    shown = "LatticeAttention(4, 6, dim=2, heads=2, stencil='axis', dropout=0.1)"
    assert str(make_layer(stencil="axis", dropout=0.1)) == shown


@pytest.mark.parametrize(("radius", "dilation", "stencil"), [(1, 1, "full"), (1, 2, "axis")])
def test_vertices_match_a_dense_computation(lattice, radius, dilation, stencil):
    layer = make_layer(radius=radius, dilation=dilation, stencil=stencil)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    neighbors = lattice.neighbors(radius, dilation, stencil)
    expected = dense(layer, values, neighbors, values)
    torch.testing.assert_close(layer(values, lattice), expected, rtol=1e-12, atol=1e-12)


def test_points_attend_to_the_stencil_of_their_nearest_vertex(lattice):
    layer = make_layer()
    values, x = (torch.randn(n, 4, dtype=DOUBLE) for n in (lattice.num_vertices, 80))
    nearest = lattice.vertex.gather(1, lattice.weight.argmax(1, keepdim=True)).squeeze(1).long()
    expected = dense(layer, values, lattice.neighbors()[nearest], x)
    torch.testing.assert_close(layer(values, lattice, x), expected, rtol=1e-12, atol=1e-12)


def test_other_points_and_points_out_of_reach(lattice):
    layer = make_layer(bias=False)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    other = torch.tensor([[2.0, 2.0], [500.0, 500.0]], dtype=DOUBLE)
    out = layer(values, lattice, torch.randn(2, 4, dtype=DOUBLE), lattice.locate(other))
    assert out[0].abs().max() > 0
    assert torch.equal(out[1], torch.zeros(6, dtype=DOUBLE))


def test_gradients(lattice):
    layer = make_layer()
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE, requires_grad=True)
    x = torch.randn(80, 4, dtype=DOUBLE, requires_grad=True)
    small = Lattice.build(lattice.feature[:6])
    few = torch.randn(small.num_vertices, 4, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: layer(v, small), few)
    assert torch.autograd.gradgradcheck(lambda v: layer(v, small), few)
    grads = torch.autograd.grad(layer(values, lattice, x).square().sum(), [values, x])
    layer.fuse = False
    expected = torch.autograd.grad(layer(values, lattice, x).square().sum(), [values, x])
    torch.testing.assert_close(grads, expected, rtol=1e-10, atol=1e-10)


def test_graphs_do_not_attend_to_each_other():
    feature = torch.rand(60, 2, dtype=DOUBLE) * 4
    batch = torch.arange(2).repeat_interleave(30)
    layer, x = make_layer(), torch.randn(60, 4, dtype=DOUBLE)
    lattice = Lattice.build(feature, batch)
    together = layer(lattice.splat(x), lattice, x)
    for part in (slice(0, 30), slice(30, 60)):
        alone = Lattice.build(feature[part])
        out = layer(alone.splat(x[part]), alone, x[part])
        torch.testing.assert_close(together[part], out, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shift", [-3e4, 0.0, 3e4])
def test_large_scores_neither_overflow_nor_vanish(lattice, shift):
    """Absent neighbors have no share, however small the scores of the others are."""
    layer = make_layer()
    with torch.no_grad():
        layer.tap_bias.mul_(100).add_(shift)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    assert (lattice.neighbors() < 0).any()
    expected = dense(layer, values, lattice.neighbors(), values)
    torch.testing.assert_close(layer(values, lattice), expected, rtol=1e-9, atol=1e-9)
    single = layer.float()(values.float(), lattice)
    torch.testing.assert_close(single, expected.float(), rtol=2e-2, atol=2e-2)


def test_empty():
    lattice = Lattice.build(torch.zeros(0, 2, dtype=DOUBLE))
    assert make_layer()(torch.zeros(0, 4, dtype=DOUBLE), lattice).shape == (0, 6)


def test_dropout_keeps_the_mean_and_is_off_in_evaluation(lattice):
    layer = make_layer(dropout=0.5)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    assert not torch.equal(layer(values, lattice), layer(values, lattice))
    mean = torch.stack([layer(values, lattice) for _ in range(2000)]).mean(0)
    layer.eval()
    assert torch.equal(layer(values, lattice), layer(values, lattice))
    torch.testing.assert_close(mean, layer(values, lattice), rtol=0.1, atol=0.1)


def test_errors(lattice):
    with pytest.raises(ValueError, match=r"Expected 'heads' to divide the 6 channels \(got 4\)"):
        LatticeAttention(4, 6, dim=2, heads=4)
    with pytest.raises(ValueError, match="Expected 'dropout' from 0 to below 1"):
        LatticeAttention(4, 6, dim=2, heads=2, dropout=1.0)
    layer, values = make_layer(), torch.zeros(lattice.num_vertices, 4, dtype=DOUBLE)
    with pytest.raises(ValueError, match=r"Expected 'query' of shape \[80, 4\]"):
        layer(values, lattice, values[:3])
    with pytest.raises(ValueError, match="Expected 'query' with the points 'at'"):
        layer(values, lattice, at=lattice.incidence)
    with pytest.raises(ValueError, match="LatticeAttention: Expected 'values' of shape"):
        layer(values[:3], lattice)
