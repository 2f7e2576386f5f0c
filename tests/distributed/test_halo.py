import pytest
import torch

from permutogeo.distributed import ShardedLattice
from permutogeo.distributed.halo import blur_halo_reach, stencil_reach
from permutogeo.lattice import Lattice


def test_reach_bounds_the_steps_between_neighbors():
    lattice = Lattice.build(torch.rand(400, 3) * 6)
    code = lattice.code[:, 0]
    for radius, dilation, stencil in ((1, 1, "full"), (2, 2, "axis")):
        neighbors = lattice.neighbors(radius, dilation, stencil).long()
        steps = (code[neighbors] - code[:, None])[neighbors >= 0].abs()
        assert 0 < steps.max() <= stencil_reach(lattice.box, radius, dilation, stencil)
    assert blur_halo_reach(lattice.box, 3) >= stencil_reach(lattice.box, 1, 1, "full")


def run_exact(group, rank, size):
    """The halo is what the owned vertices read, no more and no less."""
    feature = torch.rand(300, 2) * 12
    one = Lattice.build(feature)
    lattice = ShardedLattice.build(feature[rank::size], group=group)
    mine = torch.arange(lattice.first_vertex, lattice.first_vertex + lattice.num_vertices)
    halo = lattice._stencil_halo(1, 1, "full")
    read = one.neighbors()[mine].long().unique()
    expected = torch.cat([read[read >= 0], mine]).unique()
    assert torch.equal(halo.lattice.code, one.code[expected])
    assert torch.equal(halo.owned(halo.lattice.code), lattice.code)
    assert lattice._stencil_halo(1, 1, "full") is halo, "kept by the lattice"

    # Own vertices first, then those of others: the sum is the convolution over both.
    values = torch.rand(lattice.num_vertices, 2, dtype=torch.float64)
    taps = torch.rand(7, 2, 3, dtype=torch.float64)
    whole = halo.apply(lambda rows: halo.lattice.convolve(rows, taps), values)
    parts = halo.apply_stencil(lambda lattice, rows: lattice.convolve(rows, taps), values)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)
    border = ((one.neighbors()[mine] >= 0) & ~torch.isin(one.neighbors()[mine], mine)).any(1)
    assert torch.equal(halo.border, border)

    # The blur reads what its dense matrix has entries for.
    dense = one.blur(torch.eye(one.num_vertices))
    for transpose in (False, True):
        matrix = dense.t() if transpose else dense
        expected = (matrix[mine] != 0).any(0) | torch.isin(torch.arange(len(dense)), mine)
        halo = lattice._blur_halo(transpose)
        assert torch.equal(halo.lattice.code, one.code[expected])
    return len(mine), halo.exchange.num_read


@pytest.mark.parametrize("size", [1, 2, 4])
def test_halo_is_exact(on_ranks, size):
    for owned, read in on_ranks(run_exact, size):
        assert read == owned if size == 1 else read > owned


class Logged(torch.autograd.Function):
    """The identity, whose backward is written to a log."""

    @staticmethod
    def forward(ctx, x, log, name):
        ctx.entry = log, name
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.entry[0].append(ctx.entry[1])
        return grad, None, None


def run_overlap(group, rank, size):
    """Return the steps of the forward and of the backward pass of a convolution, in order."""
    lattice = ShardedLattice.build(torch.rand(300, 2)[rank::size] * 12, group=group)
    halo, log = lattice._stencil_halo(1, 1, "full"), []
    values = torch.rand(lattice.num_vertices, 2, requires_grad=True)
    taps = torch.rand(7, 2, 3, requires_grad=True)
    _ = halo._rim, halo._ghosts.gather(values)  # plans are made on first use
    start = halo._ghosts.ranks.start_exchange

    def logged_exchange(*arguments):
        log.append("start")
        wait = start(*arguments)
        return lambda: log.append("wait") or wait()

    def convolve(part, rows):
        name = "own" if part is halo.own else "rim"
        log.append(name)
        return Logged.apply(part.convolve(rows, taps), log, name)

    halo._ghosts.ranks.start_exchange = logged_exchange
    out = halo.apply_stencil(convolve, values)
    forward, log[:] = log[:], []
    out.square().sum().backward()
    return forward, log


def test_convolutions_hide_the_exchange(on_ranks):
    for forward, backward in on_ranks(run_overlap, 2):
        assert forward == ["start", "own", "wait", "rim"]
        assert backward == ["rim", "start", "own", "wait"]
