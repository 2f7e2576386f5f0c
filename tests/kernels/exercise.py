"""Calls every operator, forward and backward; test_debug_mode.py runs it with bounds checks.

With the argument ``fault`` it reads one value past the end instead.
"""

import sys

import torch

from permutogeo import Lattice, ops
from permutogeo.ops.mean_field import Blur, BlurFilter, Corners, FusedMeanField


def backward(*outputs):
    sum(out.sum() for out in outputs if out.requires_grad).backward(retain_graph=True)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def point_operators(lattice, at):
    """Splat, slice, dot, and the way back into the features."""
    for channels in (21, 1):
        x, values = leaf(lattice.num_points, channels), leaf(lattice.num_vertices, channels)
        backward(lattice.splat(x), lattice.slice(values))
        backward(at.splat(leaf(at.num_points, channels)), at.slice(values))
        backward(ops.dot(x, values, lattice.vertex, None, None, None))
    direction = torch.randn_like(lattice.feature)
    ops.embed_tangent(direction, lattice.feature.detach(), 0.5)


def vertex_operators(lattice):
    """Blur and convolutions, with stencils inside the padding of the box and beyond it."""
    values = leaf(lattice.num_vertices, 21)
    backward(lattice.blur(values), lattice.blur(values, transpose=True))
    for radius, dilation, kind in [(1, 1, "full"), (2, 1, "axis"), (3, 5, "axis")]:
        spec = {"radius": radius, "dilation": dilation, "stencil": kind}
        taps = lattice.neighbors(**spec).shape[1]
        backward(lattice.convolve(values, leaf(taps), shared=True, **spec))
        backward(lattice.convolve(values, leaf(taps, 1, 21), groups=21, **spec))
        backward(lattice.convolve(values, leaf(taps, 7, 6), groups=3, **spec))
    _, at = lattice.coarsen()
    vertex = torch.where(at.vertex < 0, at.num_vertices, at.vertex)
    order = ops.vertex_order(vertex, at.num_vertices + 1)
    backward(ops.segment_max(values, vertex, *order))


def edge_operators(lattice):
    """Convolution along the edges of the neighbor table, forward and backward."""
    neighbors = lattice.neighbors()
    row = torch.arange(len(neighbors), dtype=torch.int32)
    edges = ops.sort_edges(neighbors, row, row)
    opposite = ops.opposite(lattice.code, lattice.dim, 1, "full")
    values, bank = leaf(len(row), 21), leaf(neighbors.shape[1], 21, 6)
    backward(ops.convolve_edges(values, bank, *edges, *edges, opposite, len(row)))


def mean_field(lattice):
    """A step of mean field between points and vertices."""
    weight, count = lattice.weight.detach(), lattice.num_vertices
    blur = Blur.on(lattice.neighbors(stencil="axis"), lattice.dim, lattice.taps)
    corners = [
        Corners(lattice.vertex, weight, count, normalize, blur)
        for normalize in ("symmetric", "after")
    ]
    for labels, difference in ((2, True), (2, False), (4, False), (21, False), (40, False)):
        fused = FusedMeanField(torch.randn(lattice.num_points, labels), corners, difference)
        fused.step([BlurFilter(blur, 1.0)] * 2)
        fused.step([BlurFilter(blur, 1.0), torch.clone])
        fused.marginals()


def exercise(feature, batch):
    feature.requires_grad_()
    lattice = Lattice.build(feature, batch)
    others = torch.cat([feature.detach()[:40] + 0.1, 50 * torch.randn(20, feature.shape[1])])
    at = lattice.locate(others.requires_grad_(), None if batch is None else batch[:60])
    point_operators(lattice, at)
    vertex_operators(lattice)
    edge_operators(lattice)
    mean_field(lattice)


def main():
    torch.manual_seed(0)
    build, insert = (sys.modules[f"permutogeo.ops.{name}"] for name in ("build", "insert"))
    insert._FEWEST_POINTS = 1000  # a run for each thread, also here
    sys.modules["permutogeo.ops.mean_field_points"]._FEWEST_POINTS = 1000  # several runs
    for dim in (1, 2, 3):
        exercise(3 * torch.randn(90, dim), torch.randint(0, 3, (90,)))  # splat by vertex
        exercise(0.1 * torch.randn(3000, dim), None)  # into private copies
    exercise(1e7 * torch.randn(90, 3), None)  # codes of two words
    sys.modules["permutogeo.ops.marks"].suit = lambda box, corners: False
    exercise(3 * torch.randn(90, 3), None)  # in a hash table
    insert._MOST_FIRST_SLOTS = 16  # tables that grow
    roomy = ops.build(5 * torch.randn(2000, 3), torch.randint(0, 3, (2000,)), 0.5)
    build._insert_on_threads = build._insert_atomically
    ops.build(5 * torch.randn(2000, 3), torch.randint(0, 3, (2000,)), 0.5)
    assert len(roomy[2]) > 1000


def fault():
    vertex = torch.full((1, 2), 4, dtype=torch.int32)
    ops.slice(torch.ones(4, 1), torch.ones(1, 2), vertex, None, None, None)


if __name__ == "__main__":
    fault() if sys.argv[1:] == ["fault"] else main()
    print("done")
