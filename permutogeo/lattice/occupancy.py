"""Occupancy of a lattice: points per vertex, occupied neighbors, and warnings about the scale."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from permutogeo.lattice.lattice import Lattice

# Larger lattices are described without their neighbors, whose search takes seconds.
_MOST_VERTICES = 10**6
# Smaller clouds say little about the scale of a data set.
_FEWEST_POINTS = 64
# Share of the corners of all points that are vertices of their own; scans repeat a few points.
_ALONE = 0.98
# Packages between a warning and the code of a user.
_INSIDE = ("permutogeo", "torch", "torch_geometric")


class ScaleWarning(UserWarning):
    """The features are scaled so that a lattice cannot relate the points to each other."""


def occupied_neighbors(lattice: Lattice) -> float:
    """Return the fraction of the neighbors along the axes that exist, from 0 to 1."""
    neighbors = lattice.neighbors(stencil="axis")[:, 1:]
    return float((neighbors >= 0).float().mean()) if neighbors.numel() else 0.0


def occupancy_parts(lattice: Lattice) -> list[str]:
    """Return the parts of a lattice's representation that tell whether its scale is sensible."""
    count = lattice.num_vertices
    if count == 0 or lattice.device.type == "meta" or torch.compiler.is_compiling():
        return []
    parts = [f"points_per_vertex={lattice.num_points / count:.2g}"]
    if count <= _MOST_VERTICES:
        parts.append(f"occupied_neighbors={occupied_neighbors(lattice):.0%}")
    return parts


def warn_about_scale(lattice: Lattice, owner: Any) -> None:
    """Warn once if hardly any points share a vertex, or if all points of a graph share one.

    Args:
        owner: The layer or model that built the lattice, named by the warning.
    """
    # On a GPU, reading the number of graphs would stop the stream.
    if torch.compiler.is_compiling() or lattice.device.type != "cpu":
        return
    points, corners = lattice.num_points, lattice.dim + 1
    if lattice.others is not None:  # the output points have vertices too
        points += len(lattice.others[0])
    graphs = int(lattice.box[-1, 1]) if lattice.batch is not None else 1
    if points < _FEWEST_POINTS * graphs:
        return
    if lattice.num_vertices >= _ALONE * points * corners:
        state, advice = "hardly any points share a vertex", "smaller"
    elif _all_share_a_vertex(lattice, graphs):
        state, advice = "all points of a graph share a vertex", "larger"
    else:
        return
    if getattr(owner, "_warned_about_scale", False):
        return
    owner._warned_about_scale = True
    density = points / lattice.num_vertices
    warnings.warn(
        f"{type(owner).__name__}: {state} ({density:.2g} points per vertex), so that the filter "
        f"cannot relate points to each other; multiply the features by a {advice} factor, for "
        "example by pg.suggest_scale(feature), which aims for 3 points per vertex",
        ScaleWarning,
        stacklevel=_level_of_caller(),
    )


def _level_of_caller() -> int:
    """Return the ``stacklevel`` of the call that came from outside this package and torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level


def _all_share_a_vertex(lattice: Lattice, graphs: int) -> bool:
    """Return whether each graph has a vertex that is a corner of all its points."""
    # The simplices around a vertex have 2^(d + 1) - 2 other corners.
    if lattice.num_vertices >= graphs * 2 ** (lattice.dim + 1):
        return False
    count = torch.bincount(lattice.vertex.reshape(-1), minlength=lattice.num_vertices)
    most = count.new_zeros(graphs).scatter_reduce(0, lattice.vertex_batch, count, "amax")
    return int(most.sum()) == lattice.num_points
