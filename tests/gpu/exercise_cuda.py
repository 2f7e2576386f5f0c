"""Runs the CUDA branches of the operators on the simulated device, against the float64 oracle.

Usage: ``exercise_cuda.py FOLDER CASES SEED [broken]``. ``FOLDER`` takes headers and kernels;
``broken`` compiles compare-and-swap as a load, a wait and a store, which must be found out.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from atomic_headers import use_atomic_headers
from fake_cuda import DEVICE, FakeCuda, Schedule, contents, on_device  # first

from permutogeo import Lattice, ops
from permutogeo.ops import stencils
from permutogeo.testing.geometry import stencil
from permutogeo.testing.reference import ReferenceLattice


def device(array):
    return None if array is None else on_device(torch.from_numpy(np.asarray(array)))


def make_points(rng, dim):
    """Features that share vertices or do not, or need codes of several words; and graphs."""
    count = int(rng.integers(1, 200)) if rng.random() < 0.7 else 3000
    spread = float(rng.choice([0.0, 0.3, 2.0, 20.0, 1e6]))
    feature = rng.normal(size=(count, dim)) * spread
    batch = rng.integers(0, 4, count) if rng.random() < 0.6 else None
    return feature, batch


def numbers_in(oracle, lattice):
    """The oracle's number of each vertex."""
    key = lattice.key.long()
    key = torch.cat([key, -key.sum(1, keepdim=True)], 1)
    pairs = zip(lattice.vertex_batch.tolist(), map(tuple, key.tolist()), strict=True)
    return np.array([oracle.index[pair] for pair in pairs], dtype=np.int64)


def close(found, wanted, scale=1.0):
    """Compare in float64; the fraction of a coordinate has lost the digits of ``scale``."""
    np.testing.assert_allclose(contents(found), wanted, rtol=1e-11, atol=1e-13 * (100 + scale))


def check_points(fake, oracle, lattice, number, rng):
    """Build, splat, blur, slice, their adjoints, and the look-up of other points."""
    dim, scale = lattice.dim, float(np.abs(contents(lattice.feature)).max())
    x = rng.normal(size=(lattice.num_points, 5))
    values = lattice.splat(device(x))
    close(values, oracle.splat(x)[number], scale)
    close(lattice.slice(lattice.blur(values)), oracle.slice(oracle.blur(oracle.splat(x))), scale)
    other = contents(lattice.feature)[:7] + rng.normal(size=(min(7, len(x)), dim)) * 0.2
    graph = None if lattice.batch is None else contents(lattice.batch)[:7]
    at = located(fake, lattice, device(other), device(graph))
    wanted = oracle.locate(other, graph)
    close(lattice.slice(values, at), oracle.slice(oracle.splat(x), wanted), scale)
    grad = ops.dot(device(x), values, lattice.vertex, None, None, None)
    wanted = (x[:, None] * contents(values)[contents(lattice.vertex)]).sum(-1)
    close(grad, wanted)
    direction = rng.normal(size=(lattice.num_points, dim))
    cotangent = rng.normal(size=(lattice.num_points, dim + 1))
    forward = ops.embed_tangent(device(direction), lattice.feature, 0.5)
    reverse = ops.embed_adjoint(device(cotangent), lattice.feature, 0.5)
    left, right = (contents(forward) * cotangent).sum(), (contents(reverse) * direction).sum()
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def located(fake, lattice, feature, batch):
    """Locate points on a lattice whose table is there: one read, of the points' range."""
    lattice.locate(feature, batch)
    before = sum(fake.reads.values())
    at = lattice.locate(feature, batch)
    assert sum(fake.reads.values()) - before <= 1, fake.reads
    return at


def check_convolutions(oracle, lattice, number, rng):
    """Dense, grouped, shared and depthwise filters, and the gradients of both."""
    dim = lattice.dim
    offsets = stencil(dim, 1)
    values = rng.normal(size=(lattice.num_vertices, 6))
    ours = device(values)
    theirs = np.empty_like(values)
    theirs[number] = values
    bank = rng.normal(size=(len(offsets), 6, 4))
    close(lattice.convolve(ours, device(bank)), oracle.convolve(theirs, bank, offsets)[number])
    shared = rng.normal(size=len(offsets))
    found = lattice.convolve(ours, device(shared), shared=True)
    close(found, oracle.convolve_shared(theirs, shared, offsets)[number])
    # The gradient of the filter: sum over v of values at neighbor k of v times grad at v.
    grad = rng.normal(size=(lattice.num_vertices, 4))
    neighbors = lattice.neighbors()
    opposite = stencils.opposite(dim, 1, "full")
    padded = np.concatenate([values, np.zeros((1, 6))])[contents(neighbors)]
    found = ops.correlate(ours, device(grad), neighbors, on_device(opposite), 1)
    close(found, np.einsum("vki,vo->kio", padded, grad))
    for one, width in ((True, 1), (False, 6)):
        other = rng.normal(size=(lattice.num_vertices, 6))
        args = (ours, device(other), neighbors, on_device(opposite), one)
        found = ops.correlate_channelwise(*args)
        wanted = np.einsum("vki,vi->ki", padded, other)
        close(found, wanted.sum(1, keepdims=True) if width == 1 else wanted)


def check_parallelism():
    """Few vertices that share all points, and few taps, still give a GPU enough threads."""
    rng = np.random.default_rng(0)
    fake = FakeCuda(Schedule(0))
    feature = rng.normal(size=(20_000, 2))
    with fake.active():
        lattice = Lattice.build(device(feature * 1e-3))
        lattice.splat(device(rng.normal(size=(20_000, 3))))
        assert lattice.num_vertices < 20
        assert fake.threads["collect_pieces"] > 3000
        lattice = Lattice.build(device(feature * 40))
        opposite = on_device(stencils.opposite(2, 1, "full"))
        values = device(rng.normal(size=(lattice.num_vertices, 3)))
        for shared in (True, False):
            fake.threads.clear()
            args = (values, values, lattice.neighbors(), opposite, shared)
            ops.correlate_channelwise(*args)
            assert fake.threads["correlate"] > 10_000, fake.threads


def check_alignment():
    """Rows that begin at an odd address are read by channels, others by blocks."""
    rng = np.random.default_rng(0)
    fake = FakeCuda(Schedule(0))
    found, threads = [], []
    with fake.active():
        lattice = Lattice.build(device(rng.normal(size=(500, 3))))
        values = device(rng.normal(size=(lattice.num_vertices, 4)))
        shifted = on_device(torch.zeros(values.numel() + 1, dtype=torch.float64))[1:].view_as(
            values
        )
        shifted.copy_(values)
        for each in (values, shifted):
            fake.threads.clear()
            found.append(contents(lattice.slice(each)))
            threads.append(fake.threads["gather"])
    np.testing.assert_array_equal(*found)
    assert threads == [2 * 500, 4 * 500], threads


def check(dim, seed):
    rng = np.random.default_rng([dim, seed])
    feature, batch = make_points(rng, dim)
    oracle = ReferenceLattice(feature, batch)
    fake = FakeCuda(Schedule(seed))
    points = device(feature), device(batch)
    with fake.active():
        lattice = Lattice.build(*points)
        assert lattice.device == DEVICE
        in_build = sum(fake.reads.values())
    number = numbers_in(oracle, lattice)
    assert len(number) == oracle.num_vertices
    with fake.active():
        x = on_device(torch.zeros(len(feature), 3, dtype=torch.float64))
        before = sum(fake.reads.values())
        lattice.slice(lattice.blur(lattice.splat(x)))
        after = sum(fake.reads.values()) - before
        check_points(fake, oracle, lattice, number, rng)
        if dim < 5:
            check_convolutions(oracle, lattice, number, rng)
    return in_build, after, fake


def main(folder, cases, seed, broken):
    use_atomic_headers(Path(folder), broken)
    check_parallelism()
    check_alignment()
    in_build = after = launches = 0
    for case in range(cases):
        build_reads, other_reads, fake = check((1, 2, 3, 5)[case % 4], seed + case)
        in_build, after = max(in_build, build_reads), max(after, other_reads)
        launches += fake.schedule.launches
    print(f"{cases} cases, {launches} launches, reads: {in_build} in a build, {after} after it")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["broken"])
