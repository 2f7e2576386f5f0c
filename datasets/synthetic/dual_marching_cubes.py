"""Dual marching cubes (Nielson, "Dual Marching Cubes", IEEE Visualization 2004).

Each grid cell has one vertex per sheet of the surface in it, each crossed grid edge one
quadrilateral. A quadrilateral belongs to the surface that crosses its grid edge, so that surfaces
meet along mesh edges; as in dual contouring (Ju et al., "Dual Contouring of Hermite Data", SIGGRAPH
2002) the vertices are later moved onto the sharp features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.ndimage import label

from permutogeo.datasets.synthetic.patch_mesh import MeshingError
from permutogeo.typing import Array

Implicit = Callable[[Array], tuple[Array, Array]]

# Corners of a cell are numbered 4x + 2y + z. Its edge 4 * axis + 2 * u + v is parallel to the axis,
# at the coordinates u and v in {0, 1} of the next two axes.
_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])


@cache
def _edge_ends() -> Array:
    """Return the two corners of each edge of a cell, ``[12, 2]``."""
    ends = []
    for axis in range(3):
        for u in (0, 1):
            for v in (0, 1):
                place = np.zeros(3, np.int64)
                place[(axis + 1) % 3], place[(axis + 2) % 3] = u, v
                low = place @ (4, 2, 1)
                ends.append((low, low + (4, 2, 1)[axis]))
    return np.array(ends)


def _connected_edges(inside: Array) -> list[tuple[int, int]]:
    """Return the pairs of crossed edges that a sheet connects across a face of the cell.

    In the ambiguous case of four crossed edges, each inside corner is separated on its own: both
    cells of the face decide alike, and the surface stays manifold.
    """
    ends = _edge_ends()
    crossed = inside[ends[:, 0]] != inside[ends[:, 1]]
    pairs = []
    for axis in range(3):
        for place in (0, 1):
            on_side = (_CORNERS[ends][:, :, axis] == place).all(axis=1)
            edges = np.flatnonzero(on_side & crossed)
            if len(edges) == 2:
                pairs.append((edges[0], edges[1]))
            elif len(edges) == 4:
                for corner in np.flatnonzero(inside & (_CORNERS[:, axis] == place)):
                    pairs.append(tuple(edges[(ends[edges] == corner).any(axis=1)]))
    return pairs


@cache
def _sheet_table() -> Array:
    """Return the sheet of each edge of a cell for all 256 corner sign patterns, ``[256, 12]``."""
    table = np.tile(np.arange(12), (256, 1))
    for code in range(256):
        sheet = table[code]
        for a, b in _connected_edges((code >> np.arange(8)) & 1 == 1):
            sheet[sheet == sheet[b]] = sheet[a]
    return table


def dual_marching_cubes(
    values: Implicit,
    low: Array,
    cell: float,
    shape: tuple[int, int, int],
    lipschitz: float | None = None,
) -> tuple[Array, Array, Array]:
    """Return vertices ``[V, 3]``, outward quadrilaterals ``[Q, 4]`` and their surfaces ``[Q]``.

    Args:
        values: Implicit function that returns value (negative inside) and surface index.
        low: First grid point.
        cell: Grid spacing.
        shape: Number of grid points along each axis; the outermost must lie outside.
        lipschitz: Lipschitz constant of the values, if known: empty blocks are then skipped.
    """
    inside = _largest_component(_inside(values, low, cell, shape, lipschitz))
    start, axis = _crossed_edges(inside)
    outward = inside[tuple(start.T)]
    end = start + np.eye(3, dtype=np.int64)[axis]
    points = _roots(values, low + cell * start, low + cell * end, outward)
    sheet, quads = _quads(inside, start, axis, outward)
    total = np.stack(
        [np.bincount(sheet, np.repeat(points[:, k], 4), quads.max() + 1) for k in range(3)], axis=1
    )
    return total / np.bincount(sheet)[:, None], quads, values(points)[1]


def _inside(
    values: Implicit, low: Array, cell: float, shape: tuple[int, int, int], lipschitz: float | None
) -> Array:
    """Return which grid points lie inside, ``shape``."""
    index = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    if lipschitz is None:
        return values(low + cell * index.reshape(-1, 3))[0].reshape(shape) < 0
    # The center decides for all of a block that is too far from the surface to contain any of it.
    block = index // 4
    count = block.max(axis=(0, 1, 2)) + 1
    middle = np.stack(np.meshgrid(*map(np.arange, count), indexing="ij"), axis=-1) * 4 + 1.5
    coarse = values(low + cell * middle.reshape(-1, 3))[0].reshape(count)
    of_block = coarse[tuple(np.moveaxis(block, -1, 0))]
    inside = of_block < 0
    near = np.abs(of_block) < lipschitz * cell * 1.5 * np.sqrt(3) + 1e-9
    inside[near] = values(low + cell * index[near])[0] < 0
    return inside


def _largest_component(inside: Array) -> Array:
    """Return the largest connected component: thin features leave small fragments on a grid."""
    within = np.zeros_like(inside)
    within[1:-1, 1:-1, 1:-1] = True
    if not inside.any() or inside[~within].any():
        raise MeshingError("the solid is empty or larger than the grid")
    number = label(inside)[0]
    return number == np.bincount(number[inside]).argmax()


def _crossed_edges(inside: Array) -> tuple[Array, Array]:
    """Return start ``[Q, 3]`` and axis ``[Q]`` of each crossed grid edge."""
    starts, axes = [], []
    for axis in range(3):
        size = inside.shape[axis]
        first = np.take(inside, range(size - 1), axis)
        found = np.argwhere(first != np.take(inside, range(1, size), axis))
        starts.append(found)
        axes.append(np.full(len(found), axis))
    return np.concatenate(starts), np.concatenate(axes)


def _roots(values: Implicit, start: Array, end: Array, first_inside: Array) -> Array:
    """Return the surface crossings between pairs of points, by bisection."""
    inner = np.where(first_inside[:, None], start, end)
    outer = np.where(first_inside[:, None], end, start)
    for _ in range(14):
        middle = (inner + outer) / 2
        is_inside = (values(middle)[0] < 0)[:, None]
        inner, outer = np.where(is_inside, middle, inner), np.where(is_inside, outer, middle)
    return (inner + outer) / 2


def _quads(inside: Array, start: Array, axis: Array, outward: Array) -> tuple[Array, Array]:
    """Return the vertices of the quadrilaterals, flat ``[4 Q]`` and oriented ``[Q, 4]``."""
    code = np.zeros([n - 1 for n in inside.shape], np.int64)
    for bit, corner in enumerate(_CORNERS):
        window = tuple(slice(c, n - 1 + c) for c, n in zip(corner, inside.shape, strict=True))
        code |= inside[window].astype(np.int64) << bit
    keys = []
    rows = np.arange(len(start))
    for u, v in ((1, 1), (0, 1), (0, 0), (1, 0)):
        owner = start.copy()
        owner[rows, (axis + 1) % 3] -= u
        owner[rows, (axis + 2) % 3] -= v
        cell = tuple(owner.T)
        sheet = _sheet_table()[code[cell], 4 * axis + 2 * u + v]
        keys.append(np.ravel_multi_index(cell, code.shape) * 12 + sheet)
    flat = np.unique(np.stack(keys, axis=1), return_inverse=True)[1].reshape(-1)
    quads = flat.reshape(-1, 4)
    return flat, np.where(outward[:, None], quads, quads[:, ::-1])
