"""Corners of the points of mean field, and the slots of their runs."""

import torch

from permutogeo import Lattice
from permutogeo.ops import mean_field as module
from permutogeo.ops.mean_field import Corners, FusedMeanField


def make(monkeypatch):
    monkeypatch.setattr(module, "_FEWEST_POINTS", 100)
    lattices = [Lattice.build(torch.rand(1000, dim) * 9) for dim in (2, 3)]
    corners = [
        Corners(each.vertex, each.weight, each.weight * 2, each.num_vertices) for each in lattices
    ]
    return FusedMeanField(torch.randn(1000, 5), corners), corners


def test_corners_of_all_lattices_are_joined(monkeypatch):
    fused, corners = make(monkeypatch)
    rows = corners[0].num_vertices + 1
    assert torch.equal(fused._vertex, torch.cat([corners[0].vertex, corners[1].vertex + rows], 1))
    assert torch.equal(fused._source, torch.cat([each.source for each in corners], 1))
    assert torch.equal(fused._target, torch.cat([each.target for each in corners], 1))


def test_runs_share_no_cache_line(monkeypatch):
    """Slots of different runs are apart, and each vertex lists those of its points."""
    fused, _ = make(monkeypatch)
    begin, slots = fused._slots
    owner = torch.full((len(fused._sums),), -1)
    owner[slots.long()] = torch.repeat_interleave(torch.arange(len(begin) - 1), begin.diff())
    lines = [fused._slot[first:last] // module._LINE for first, last in fused._runs.tolist()]
    assert len(lines) == 8
    assert sum(len(each.unique()) for each in lines) == len(torch.cat(lines).unique())
    assert torch.equal(owner[fused._slot.long()].int(), fused._vertex)
