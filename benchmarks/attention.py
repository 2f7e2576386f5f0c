"""Attention on the lattice beside the convolution, and beside PyG's attention on the same graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import GATv2Conv

import permutogeo as pg
from permutogeo.benchmarks.timing import in_turn, ms, ratio, table, threads
from permutogeo.nn import LatticeAttention, LatticeConv

_HEADS = 4


def attention(quick: bool = False) -> None:
    """Time layers over the same neighbors of a kept lattice, on one thread."""
    sizes = [(64, 1, 8)] if quick else [(1024, 1, 64), (1024, 16, 64), (20_000, 1, 32)]
    rows = []
    with threads(1):
        for count, graphs, channels in sizes:
            rows += _rows(count, graphs, channels, 1 if quick else 10)
    columns = ["clouds x points, channels", "", "LatticeConv ms", "attention ms", "GATv2Conv ms"]
    columns += ["attention ÷ conv", "GATv2Conv ÷ conv"]
    table(f"Attention with {_HEADS} heads over the neighbors of a lattice, d = 3", columns, rows)


def _rows(count: int, graphs: int, channels: int, repeats: int) -> list[list[str]]:
    generator = torch.Generator().manual_seed(0)
    place = torch.randn(count * graphs, 3, generator=generator)
    place = place / place.norm(dim=1, keepdim=True)
    batch = torch.arange(graphs).repeat_interleave(count)
    place = place * pg.suggest_scale(place[:count])
    lattice = pg.Lattice.build(place, batch)
    values = torch.rand(lattice.num_vertices, channels, generator=generator).requires_grad_()
    edge_index, edge_type = lattice.neighbor_graph()
    offset = torch.nn.functional.one_hot(edge_type).to(values.dtype)
    conv = LatticeConv(channels, channels, 3)
    fused = LatticeAttention(channels, channels, 3, heads=_HEADS)
    unfused = GATv2Conv(
        channels, channels // _HEADS, _HEADS, edge_dim=offset.shape[1], add_self_loops=False
    )
    forward = {
        "conv": lambda: conv(values, lattice),
        "fused": lambda: fused(values, lattice),
        "unfused": lambda: unfused(values, edge_index, offset),
    }
    backward = {name: _with_backward(call) for name, call in forward.items()}
    rows = []
    for label, calls in (("forward", forward), ("with backward", backward)):
        time = in_turn(calls, repeats)
        name = f"{graphs} x {count:,}, {channels}" if label == "forward" else ""
        shares = [ratio(time[key], time["conv"]) for key in ("fused", "unfused")]
        rows.append([name, label, *(ms(time[key]) for key in forward), *shares])
    return rows


def _with_backward(call: Callable[[], Tensor]) -> Callable[[], object]:
    return lambda: call().square().mean().backward()
