"""The step of mean field in one go, against the same step by slices, softmax and splats."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.ops import mean_field as module
from permutogeo.ops.mean_field import FusedMeanField


def make(labels, count=3000, scales=(20.0, 5.0), dims=(2, 5)):
    lattices = [
        Lattice.build(torch.rand(count, dim) * scale)
        for dim, scale in zip(dims, scales, strict=True)
    ]
    unary = 3 * torch.randn(count, labels)
    source = [lattice.weight * torch.rand(count, 1) for lattice in lattices]
    target = [lattice.weight * torch.rand(count, 1) for lattice in lattices]
    vertices = [lattice.num_vertices for lattice in lattices]
    fused = FusedMeanField(unary, [each.vertex for each in lattices], source, target, vertices)
    return fused, lattices, unary, source, target


def by_parts(lattices, unary, source, target, values):
    """Logits of the points, and their marginals at vertices."""
    logits = unary.clone()
    for lattice, weight, at in zip(lattices, target, values, strict=False):
        logits += lattice.incidence.with_weight(weight).slice(at)
    q = logits.softmax(1)
    splats = [
        lattice.incidence.with_weight(weight).splat(q)
        for lattice, weight in zip(lattices, source, strict=True)
    ]
    return logits, splats


@pytest.mark.parametrize("chunk", [64, 1 << 14])
@pytest.mark.parametrize("labels", [1, 2, 7, 8, 21, 33])
def test_is_slice_softmax_and_splat(monkeypatch, labels, chunk):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    fused, *parts = make(labels)
    assert (len(fused.runs) > 1) == (chunk == 64)
    _, start = by_parts(*parts, [])
    filters = [lambda values: 2 * values, lambda values: -values]
    values = fused.step([], filters)
    expected = [2 * start[0], -start[1]]
    for got, wanted in zip(values, expected, strict=True):
        torch.testing.assert_close(got[:, :labels], wanted, rtol=1e-5, atol=1e-5)
        assert not got[:, labels:].any()
    logits, splats = by_parts(*parts, expected)
    torch.testing.assert_close(fused.marginals(values), logits.log_softmax(1), rtol=1e-4, atol=1e-4)
    again = fused.step(values, [lambda values: values] * 2)
    for got, wanted in zip(again, splats, strict=True):
        torch.testing.assert_close(got[:, :labels], wanted, rtol=1e-4, atol=1e-4)


def test_filters_may_return_the_labels_alone():
    fused, *_ = make(5)
    whole = fused.step([], [lambda values: values] * 2)
    cut = fused.step([], [lambda values: values[:, :5]] * 2)
    assert all(torch.equal(a, b) for a, b in zip(whole, cut, strict=True))


def test_an_error_in_a_filter_arrives():
    fused, *_ = make(3)
    with pytest.raises(ZeroDivisionError):
        fused.step([], [lambda values: values, lambda values: 1 // 0])


def test_nothing_given_is_changed():
    fused, _, unary, source, target = make(3)
    before = [tensor.clone() for tensor in (unary, *source, *target)]
    fused.step(fused.step([], [lambda v: v.mul_(2)] * 2), [lambda v: v] * 2)
    assert all(torch.equal(a, b) for a, b in zip(before, (unary, *source, *target), strict=True))


@pytest.mark.parametrize("graphs", [2, 5, 40])
def test_a_batch_needs_no_copies(graphs):
    batch = torch.randint(graphs, (3000,)).sort().values
    lattice = Lattice.build(torch.rand(3000, 2) * 5, batch)
    unary, weight = torch.randn(3000, 3), lattice.weight
    place = ([lattice.vertex], [weight], [weight], [lattice.num_vertices])
    whole, parted = FusedMeanField(unary, *place), FusedMeanField(unary, *place, batch)
    assert len(parted.runs) == min(graphs, 16)
    assert parted.copies == 1
    results = [each.step([], [lattice.blur])[0] for each in (whole, parted)]
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
    mixed = batch[torch.randperm(3000)]  # not one after another
    assert len(FusedMeanField(unary, *place, mixed).runs) == 1


def test_no_points():
    lattice = Lattice.build(torch.empty(0, 2))
    fused = FusedMeanField(
        torch.empty(0, 3), [lattice.vertex], [lattice.weight], [lattice.weight], [0]
    )
    values = fused.step([], [lambda values: values])
    assert fused.marginals(values).shape == (0, 3)
