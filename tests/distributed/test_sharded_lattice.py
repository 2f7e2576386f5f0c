"""A lattice over several ranks against one lattice over all points, in float64."""

import pytest
import torch

from permutogeo.distributed import ShardedLattice, partition
from permutogeo.lattice import Lattice

COUNT = 90
each_size = pytest.mark.parametrize("size", [1, 2, 3, 4])
each_partition = pytest.mark.parametrize("how", ["random", "one", "keys", "gap"])


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def points(dim, count=COUNT, spread=5.0):
    return torch.rand(count, dim, dtype=torch.float64) * spread, torch.randn(
        count, 3, dtype=torch.float64
    )


def share(how, feature, rank, size, group):
    """Rows of this rank: at random, all on one rank, in key space, or none on the last rank."""
    part = torch.randint(size, (len(feature),))
    if how == "one":
        part[:] = size - 1
    elif how == "gap":
        part = part.clamp(max=max(0, size - 2))
    elif how == "keys":
        part = partition(feature, num_parts=size).rank
    return (part == rank).nonzero()[:, 0]


def mine(lattice, values):
    """The rows of the vertices of this rank."""
    return values[lattice.first_vertex : lattice.first_vertex + lattice.num_vertices]


def run_operators(group, rank, size, how, dim):
    feature, x = points(dim)
    batch = torch.randint(2, (COUNT,))
    for graphs in (None, batch):
        rows = share(how, feature, rank, size, group)
        one = Lattice.build(feature, graphs)
        ours = ShardedLattice.build(feature[rows], None if graphs is None else graphs[rows], group)
        assert ours.total_vertices == one.num_vertices and ours.num_points == len(rows)
        assert torch.equal(ours.key, mine(ours, one.key))
        assert torch.equal(ours.vertex_batch, mine(ours, one.vertex_batch))
        values = one.splat(x)
        same(ours.splat(x[rows]), mine(ours, values))
        for transpose in (False, True):
            same(ours.blur(mine(ours, values), transpose), mine(ours, one.blur(values, transpose)))
        for radius, dilation, stencil in ((1, 1, "full"), (2, 1, "axis"), (1, 3, "full")):
            found = one.neighbors(radius, dilation, stencil)
            assert torch.equal(ours.neighbors(radius, dilation, stencil), mine(ours, found).long())
            bank = torch.randn(found.shape[1], 3, 2, dtype=torch.float64)
            options = {"radius": radius, "dilation": dilation, "stencil": stencil}
            expected = one.convolve(values, bank, **options)
            same(ours.convolve(mine(ours, values), bank, **options), mine(ours, expected))
        same(ours.slice(mine(ours, values)), one.slice(values)[rows])
        assert "sharded" not in repr(one) and repr(ours).startswith("ShardedLattice(dim=")


@each_size
@each_partition
@pytest.mark.parametrize("dim", [2, 3])
def test_operators(on_ranks, size, how, dim):
    on_ranks(run_operators, size, how=how, dim=dim)


def run_gradients(group, rank, size, how):
    """First and second derivatives in values, filters and features."""
    feature, x = points(2, 60)
    extra = points(2, 20)[0]
    rows, more = share(how, feature, rank, size, group), torch.arange(20)[rank::size]
    bank = torch.randn(7, 3, 2, dtype=torch.float64)
    weights = torch.randn(60, 2, dtype=torch.float64), torch.randn(20, 2, dtype=torch.float64)

    def leaves(*tensors):
        return [tensor.clone().requires_grad_() for tensor in tensors]

    def loss(lattice, x, bank, other, weight, weight_other):
        values = lattice.convolve(lattice.blur(lattice.splat(x)), bank)
        there = lattice.slice(values, lattice.locate(other))
        here = lattice.slice(values).square() * weight
        return here.sum() + (there.square() * weight_other).sum()

    def derivatives(build, x, feature, bank, other, weight, weight_other):
        inputs = leaves(x, feature, bank, other)
        value = loss(build(inputs[1]), inputs[0], inputs[2], inputs[3], weight, weight_other)
        first = torch.autograd.grad(value, inputs, create_graph=True)
        # The filter is the same on all ranks: its gradient is the sum over the ranks.
        length = sum((part * part.detach().cos()).sum() for part in (*first[:2], first[3]))
        second = torch.autograd.grad(length, inputs)
        return first, second

    one = derivatives(Lattice.build, x, feature, bank, extra, *weights)
    ours = derivatives(
        lambda points: ShardedLattice.build(points, group=group),
        *(x[rows], feature[rows], bank, extra[more], weights[0][rows], weights[1][more]),
    )
    for theirs, found in zip(one, ours, strict=True):
        for index, (expected, part) in enumerate(zip(theirs, found, strict=True)):
            if index == 2:
                total = part.detach().clone()
                torch.distributed.all_reduce(total, group=group)
                close(total, expected)
            else:
                close(part, expected[more if index == 3 else rows])


def close(ours, theirs):
    scale = max(1.0, float(theirs.detach().abs().max())) if theirs.numel() else 1.0
    torch.testing.assert_close(ours / scale, theirs / scale, rtol=1e-12, atol=1e-12)


@each_size
@pytest.mark.parametrize("how", ["random", "keys", "gap"])
def test_gradients(on_ranks, size, how):
    on_ranks(run_gradients, size, how=how)


def run_other_points(group, rank, size):
    """Points beside the cloud and far outside of its box; bipartite lattices."""
    feature, x = points(3)
    other = torch.cat([points(3, 40, 6.0)[0], torch.full((1, 3), 1e4, dtype=torch.float64)])
    rows, more = share("random", feature, rank, size, group), torch.arange(41)[rank::size]
    one, ours = Lattice.build(feature), ShardedLattice.build(feature[rows], group=group)
    values = one.splat(x)
    at, our_at = one.locate(other), ours.locate(other[more])
    same(ours.slice(mine(ours, values), our_at), one.slice(values, at)[more])
    y = torch.randn(41, 2, dtype=torch.float64)
    same(ours.splat(y[more], our_at), mine(ours, one.splat(y, at)))

    one, at = Lattice.build_bipartite(feature, other)
    ours, our_at = ShardedLattice.build_bipartite(feature[rows], other[more], group=group)
    assert ours.is_output(our_at) and ours.total_vertices == one.num_vertices
    blurred, our_blurred = one.blur(one.splat(x)), ours.blur(ours.splat(x[rows]))
    same(ours.slice(our_blurred, our_at), one.slice(blurred, at)[more])
    same(ours.slice(our_blurred), one.slice(blurred)[rows])
    coarse, _ = one.coarsen()
    our_coarse, _ = ours.coarsen()
    assert our_coarse.total_vertices == coarse.num_vertices


@each_size
def test_other_points(on_ranks, size):
    on_ranks(run_other_points, size)


def run_coarsen(group, rank, size, how):
    feature, x = points(3, spread=9.0)
    rows = share(how, feature, rank, size, group)
    one, ours = Lattice.build(feature), ShardedLattice.build(feature[rows], group=group)
    values = one.splat(x)
    for _ in range(2):
        coarse, at = one.coarsen()
        our_coarse, our_at = ours.coarsen()
        assert ours.has_coarsened(our_coarse, our_at) and ours.coarsen()[0] is our_coarse
        assert torch.equal(our_coarse.key, mine(our_coarse, coarse.key))
        restricted = coarse.splat(values, at)
        same(our_coarse.splat(mine(ours, values), our_at), mine(our_coarse, restricted))
        back = coarse.slice(restricted, at)
        same(our_coarse.slice(mine(our_coarse, restricted), our_at), mine(ours, back))
        one, ours, values = coarse, our_coarse, restricted
    with pytest.raises(ValueError, match="as coarsen"):
        ours.has_coarsened(our_coarse, our_at)


@each_size
@pytest.mark.parametrize("how", ["random", "gap"])
def test_coarsen(on_ranks, size, how):
    on_ranks(run_coarsen, size, how=how)


def run_wide_codes(group, rank, size):
    """Codes of several words, far-apart clusters and no point at all."""
    feature, x = points(3, 40)
    feature[20:] += 3e8
    rows = share("random", feature, rank, size, group)
    one, ours = Lattice.build(feature), ShardedLattice.build(feature[rows], group=group)
    assert one.code.shape[1] > 1
    values = one.splat(x)
    same(ours.splat(x[rows]), mine(ours, values))
    same(ours.blur(mine(ours, values)), mine(ours, one.blur(values)))
    assert torch.equal(ours.neighbors(), mine(ours, one.neighbors()).long())
    nothing = ShardedLattice.build(feature[:0], group=group)
    assert nothing.num_vertices == 0
    assert nothing.slice(nothing.blur(nothing.splat(x[:0]))).shape == (0, 3)


@pytest.mark.parametrize("size", [1, 3])
def test_wide_codes_and_no_points(on_ranks, size):
    on_ranks(run_wide_codes, size)


def run_balance(group, rank, size):
    """Ranges depend on the points alone, and hold equal loads."""
    feature = torch.cat([torch.rand(900, 2) * 3, torch.rand(900, 2) * 30]).double()
    found = []
    for how in ("random", "one", "keys"):
        rows = share(how, feature, rank, size, group)
        ours = ShardedLattice.build(feature[rows], group=group)
        found.append(ours.counts)
        sent = ours.incidence.exchange.sent_rows
    assert found[0] == found[1] == found[2]
    assert sent < 0.2 * ours.num_vertices, "points in key space touch few vertices of others"
    return ours.num_points + ours.num_vertices


def test_balance(on_ranks):
    loads = on_ranks(run_balance, 4)
    assert max(loads) < 1.15 * sum(loads) / 4


def run_bad_input(group, rank, size):
    feature = points(3, 10)[0]

    def fails(match, *args, **kwargs):
        with pytest.raises((ValueError, TypeError), match=match):
            ShardedLattice.build(*args, group=group, **kwargs)

    fails("same dimension of 'feature' on all ranks .got 2 on rank 0", feature[:, : 2 + rank % 2])
    fails("same dtype of 'feature'", feature.float() if rank else feature)
    fails("same use of 'batch'", feature, torch.zeros(10, dtype=torch.int64) if rank else None)
    fails("same requires_grad", feature.clone().requires_grad_(rank == 0))
    fails("same 'taps'", feature, taps=(0.5, 1.0, 0.5) if rank else (1.0, 1.0, 1.0))
    broken = feature.clone()
    broken[3, 1] = float("nan")
    fails("row 3" if rank == 1 else "Rank 1 of .* row 3", broken if rank == 1 else feature)
    fails("tensor .got str" if rank == 0 else "Rank 0", "cloud" if rank == 0 else feature)
    lattice = ShardedLattice.build(feature, group=group)
    with pytest.raises(ValueError, match=r"\[N, 3\]" if rank == 0 else "Rank 0 of"):
        lattice.locate(feature[:, :2] if rank == 0 else feature)
    plain = Lattice.build(feature)
    with pytest.raises(ValueError, match="ShardedIncidence"):
        lattice.slice(torch.zeros(lattice.num_vertices, 1).double(), plain.incidence)
    with pytest.raises(ValueError, match="message passing"):
        lattice.incidence_graph()
    with pytest.raises(ValueError, match="message passing"):
        lattice.neighbor_graph()
    with pytest.raises(ValueError, match="stay on the device"):
        lattice.to("cpu")
    with pytest.raises(ValueError, match="one row for each of the"):
        lattice.blur(torch.zeros(lattice.num_vertices + 1, 1))
    with pytest.raises(ValueError, match=r"same kind of rows .*got \[1\] .* on rank 0 and \[2\]"):
        lattice.splat(feature[:, : 1 + min(rank, 1)])
    with pytest.raises(ValueError, match=r"same kind of rows .*float32"):
        lattice.splat(feature.float() if rank else feature)
    values = lattice.splat(feature)
    with pytest.raises(ValueError, match="same requires_grad"):
        lattice.slice(values.clone().requires_grad_(rank == 1))
    with pytest.raises(ValueError, match=r"same operation .*got blur.* on rank 0 and slice"):
        lattice.slice(values) if rank else lattice.blur(values)
    lattice.splat(feature)  # all ranks are still in step


@pytest.mark.parametrize("size", [2, 3])
def test_bad_input(on_ranks, size):
    on_ranks(run_bad_input, size)


def test_without_a_process_group():
    with pytest.raises(ValueError, match=r"initialized process group .*torchrun"):
        ShardedLattice.build(torch.rand(5, 2))
