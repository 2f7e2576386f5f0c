"""Values at points from values at vertices and back, and values of whole graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.normalization import append_ones, divide_by_mass


def splat_mean(lattice: Lattice, x: Tensor, at: Incidence | None = None) -> Tensor:
    """Splat and divide by the mass: the weighted mean of the points at each vertex."""
    if at is not None:
        return divide_by_mass(lattice.splat(append_ones(x), at))
    return divide_by_mass(lattice.splat(x), lattice.mass(x.dtype))


def gaussian_mean_at(lattice: Lattice, x: Tensor, at: Incidence | None) -> Tensor:
    """Return values at the input points as they are, or their Gaussian mean at other points."""
    if at is None:
        return x
    return divide_by_mass(lattice.slice(lattice.blur(lattice.splat(append_ones(x))), at))


def count_graphs(batch: Tensor | None) -> int:
    """Return the number of graphs of a batch vector, one without it."""
    if batch is None:
        return 1
    if batch.shape[0] == 0:
        return 0
    # Of `item()`, unlike `int()`, torch.export keeps a symbol.
    count: Any = batch.max().item() + 1
    torch._check(count >= 1)
    return count


def output_batch(lattice: Lattice, at: Incidence | None) -> Tensor:
    """Return the graph of each output point: of the points of a lattice, or of ``at``."""
    batch = lattice.batch
    if at is not None:
        batch = None if lattice.others is None else lattice.others[1]
    if batch is None:
        points = lattice.num_points if at is None else at.num_points
        batch = torch.zeros(points, dtype=torch.int64, device=lattice.device)
    return batch


def readout(values: Tensor, graph: Tensor | None, size: int) -> Tensor:
    """Return mean and maximum over each of ``size`` graphs, ``[B, 2 C]``; 0 of an empty graph."""
    if graph is None:
        graph = torch.zeros(values.shape[0], dtype=torch.int64, device=values.device)
    shape = (size, values.shape[1])
    index = graph.unsqueeze(1)
    mass = values.new_zeros(size, 1).scatter_add(0, index, torch.ones_like(values[:, :1]))
    index = index.expand(-1, values.shape[1])
    mean = values.new_zeros(shape).scatter_add(0, index, values) / mass.clamp(min=1)
    # Empty graphs keep the zeros.
    high = values.new_zeros(shape).scatter_reduce(0, index, values, "amax", include_self=False)
    return torch.cat([mean, high], 1)


def readout_size(channels: int, task: str, context: bool) -> int:
    """Return the number of columns of :func:`readout_of_task`."""
    return channels * (2 if task == "graph" else 3 if context else 1)


def readout_of_task(
    x: Tensor, lattice: Lattice, at: Incidence | None, task: str, context: bool
) -> Tensor:
    """Return what the last layer of a model without levels reads.

    In a graph task, mean and maximum over each graph; in a point task, the values at each output
    point, and with ``context`` mean and maximum over its graph.

    Args:
        x: Values at the input points, ``[N, C]``.
        lattice: The lattice over the input points.
        at: The output points, or ``None`` where these are the input points.
        task: ``"point"`` or ``"graph"``.
        context: Whether each point also sees its graph.
    """
    if task == "graph":
        return readout(x, lattice.batch, count_graphs(lattice.batch))
    out = gaussian_mean_at(lattice, x, at)
    if not context:
        return out
    whole = readout(x, lattice.batch, count_graphs(lattice.batch))
    return torch.cat([out, whole[output_batch(lattice, at)]], 1)
