"""Permutohedral lattice as a dict, and its Gaussian filter, in float64 NumPy.

Slow, short and independent of the kernels; the tests compare against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from permutogeo.testing.geometry import (
    TAPS,
    Floats,
    Ints,
    axes,
    axis_stencil,
    elevate,
    embed,
    gaussian_stencil,
    stencil,
)

__all__ = [
    "ReferenceLattice",
    "axis_stencil",
    "brute_force_filter",
    "elevate",
    "embed",
    "gaussian_filter",
    "gaussian_stencil",
    "stencil",
]

Incidence = tuple[Ints, Floats]  # vertex [N, d+1] with -1 for absent, weight [N, d+1]

EPSILON = 1e-20
# Exponents of the normalizer at the input points and at the output points.
NORMALIZATIONS = {
    None: (0.0, 0.0),
    "before": (1.0, 0.0),
    "after": (0.0, 1.0),
    "symmetric": (0.5, 0.5),
}


def _graph_ids(batch: ArrayLike | None, num_points: int) -> Ints:
    """Graph ids [N], all zero without a batch."""
    return np.zeros(num_points, np.int64) if batch is None else np.asarray(batch, np.int64)


class ReferenceLattice:
    """Lattice over features [N, d]: a dict from (graph id, key tuple) to a vertex index.

    Attributes: `key` [M, d+1], `vertex_batch` [M], `vertex` and `weight` [N, d+1].
    """

    def __init__(
        self, feature: ArrayLike, batch: ArrayLike | None = None, tap_variance: float = 0.5
    ) -> None:
        corner, self.weight = embed(feature, tap_variance)
        num_points, size = self.weight.shape
        self.dim = size - 1
        self.tap_variance = tap_variance
        self.index: dict[tuple[int, tuple[int, ...]], int] = {}
        graph = np.repeat(_graph_ids(batch, num_points), size)
        entries = _entries(graph, corner.reshape(-1, size))
        found = [self.index.setdefault(entry, len(self.index)) for entry in entries]
        self.vertex = np.array(found, np.int64).reshape(-1, size)
        self.key = np.array([key for _, key in self.index], np.int64).reshape(-1, size)
        self.vertex_batch = np.array([graph for graph, _ in self.index], np.int64)

    @classmethod
    def build_bipartite(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        batch_src: ArrayLike | None = None,
        batch_dst: ArrayLike | None = None,
        tap_variance: float = 0.5,
    ) -> tuple[ReferenceLattice, Incidence]:
        """Lattice whose points are `src` and whose vertices are those of both, and `dst` on it."""
        src, dst = np.asarray(src, np.float64), np.asarray(dst, np.float64)
        batches = [_graph_ids(batch_src, len(src)), _graph_ids(batch_dst, len(dst))]
        lattice = cls(np.concatenate([src, dst]), np.concatenate(batches), tap_variance)
        at = lattice.vertex[len(src) :], lattice.weight[len(src) :]
        lattice.vertex, lattice.weight = lattice.vertex[: len(src)], lattice.weight[: len(src)]
        return lattice, at

    @property
    def num_vertices(self) -> int:
        """M."""
        return len(self.index)

    def locate(self, feature: ArrayLike, batch: ArrayLike | None = None) -> Incidence:
        """Incidence of other points [N', d]: vertex [N', d+1], -1 where absent, and weight."""
        corner, weight = embed(feature, self.tap_variance)
        num_points, size = weight.shape
        graph = np.repeat(_graph_ids(batch, num_points), size)
        return self._find(graph, corner.reshape(-1, size)).reshape(-1, size), weight

    def neighbors(self, offsets: Ints) -> Ints:
        """Vertex at each offset [K, d+1] of each vertex, -1 where absent: [M, K]."""
        columns = [self._find(self.vertex_batch, self.key + offset) for offset in offsets]
        return np.stack(columns, axis=1)

    def _find(self, graph: Ints, key: Ints) -> Ints:
        return np.array([self.index.get(entry, -1) for entry in _entries(graph, key)], np.int64)

    def splat(self, x: ArrayLike) -> Floats:
        """Spread x [N, C] onto the vertices: [M, C]."""
        x = np.asarray(x, np.float64)
        values = np.zeros((self.num_vertices, x.shape[1]))
        for vertex, weight in zip(self.vertex.T, self.weight.T, strict=True):
            np.add.at(values, vertex, weight[:, None] * x)
        return values

    def slice(self, values: ArrayLike, at: Incidence | None = None) -> Floats:
        """Interpolate values [M, C] at the lattice's own points or at others: [N, C]."""
        vertex, weight = (self.vertex, self.weight) if at is None else at
        return np.einsum("nk,nkc->nc", weight, _padded(values)[vertex])

    def convolve(
        self, values: ArrayLike, filter_weight: ArrayLike, offsets: Ints, groups: int = 1
    ) -> Floats:
        """Apply a filter bank [K, C_in/groups, C_out] to values [M, C_in]: [M, C_out]."""
        padded, bank = _padded(values), np.asarray(filter_weight, np.float64)
        out = np.zeros((self.num_vertices, bank.shape[2]))
        for neighbor, matrix in zip(self.neighbors(offsets).T, bank, strict=True):
            blocks = np.split(padded[neighbor], groups, axis=1)
            matrices = np.split(matrix, groups, axis=1)
            products = [block @ part for block, part in zip(blocks, matrices, strict=True)]
            out += np.concatenate(products, axis=1)
        return out

    def convolve_shared(self, values: ArrayLike, filter: ArrayLike, offsets: Ints) -> Floats:
        """Apply one scalar filter [K] to every channel of values [M, C]: [M, C]."""
        padded = _padded(values)
        out = np.zeros_like(padded[:-1])
        for neighbor, tap in zip(self.neighbors(offsets).T, np.asarray(filter), strict=True):
            out += tap * padded[neighbor]
        return out

    def blur(
        self, values: ArrayLike, taps: Sequence[float] = TAPS, reverse: bool = False
    ) -> Floats:
        """Blur values [M, C] along axes 0..d, or d..0, divided by the response at the centre."""
        reach = len(taps) // 2
        steps = np.arange(-reach, reach + 1)[:, None]
        blurred = np.asarray(values, np.float64)
        for axis in axes(self.dim)[:: -1 if reverse else 1]:
            blurred = self.convolve_shared(blurred, taps, steps * axis)
        # The axes sum to zero: only equal steps along all of them lead back to the start.
        return blurred / sum(tap ** (self.dim + 1) for tap in taps)

    def splat_matrix(self) -> Floats:
        """Splat as a dense matrix [M, N]."""
        return self.splat(np.eye(len(self.vertex)))

    def slice_matrix(self, at: Incidence | None = None) -> Floats:
        """Slice as a dense matrix [N, M]."""
        return self.slice(np.eye(self.num_vertices), at)

    def blur_matrix(self, taps: Sequence[float] = TAPS, reverse: bool = False) -> Floats:
        """Blur as a dense matrix [M, M]; with symmetric taps `reverse` gives its transpose."""
        return self.blur(np.eye(self.num_vertices), taps, reverse)


def _entries(graph: Ints, key: Ints) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The dict keys of vertices with graph ids [M] and lattice keys [M, d+1]."""
    return zip(graph.tolist(), map(tuple, key.tolist()), strict=True)


def _padded(values: ArrayLike) -> Floats:
    """Values [M, C] and a last row of zeros, which the index -1 of absent vertices reads."""
    return np.pad(np.asarray(values, np.float64), [(0, 1), (0, 0)])


def gaussian_filter(
    x: ArrayLike,
    feature: ArrayLike,
    batch: ArrayLike | None = None,
    normalize: str | None = "after",
    tap_variance: float = 0.5,
    taps: Sequence[float] = TAPS,
) -> Floats:
    """Filter x [N, C] by splat, blur and slice over features [N, d]: [N, C]."""
    lattice = ReferenceLattice(feature, batch, tap_variance)
    return _normalized(lambda v: lattice.slice(lattice.blur(lattice.splat(v), taps)), x, normalize)


def brute_force_filter(
    x: ArrayLike,
    feature: ArrayLike,
    batch: ArrayLike | None = None,
    normalize: str | None = "after",
) -> Floats:
    """Filter x [N, C] by the exact sum over exp(-|f_i - f_j|^2 / 2), in O(N^2): [N, C]."""
    feature = np.asarray(feature, np.float64)
    graph = _graph_ids(batch, len(feature))
    # One coordinate at a time: expanding the square instead would cancel far from the origin.
    distance = sum(np.subtract.outer(column, column) ** 2 for column in feature.T)
    kernel = np.exp(-distance / 2) * np.equal.outer(graph, graph)
    return _normalized(lambda v: kernel @ v, x, normalize)


def _normalized(kernel: Callable[[Floats], Floats], x: ArrayLike, normalize: str | None) -> Floats:
    """Apply a kernel to x [N, C] between the two powers of its response to ones."""
    x = np.asarray(x, np.float64)
    before, after = NORMALIZATIONS[normalize]
    norm = kernel(np.ones((len(x), 1))) + EPSILON
    return kernel(x / norm**before) / norm**after
