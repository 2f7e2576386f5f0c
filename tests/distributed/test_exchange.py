import pytest
import torch

from permutogeo.distributed.exchange import Exchange
from permutogeo.distributed.ranks import Ranks

ROWS = 5


def plan(group, rank, size):
    """Return an exchange at random, and its matrix from the rows of all ranks to those read."""
    reads = torch.rand(size, size, ROWS) < 0.5  # [reader, owner, row], equal on all ranks
    exchange = Exchange.push(
        Ranks(group), ROWS, [reads[reader, rank].nonzero()[:, 0] for reader in range(size)]
    )
    matrix = torch.eye(size * ROWS, dtype=torch.float64)[reads[rank].flatten()]
    return exchange, matrix, [reads[reader].flatten() for reader in range(size)]


def run_matrix(group, rank, size):
    exchange, matrix, reads = plan(group, rank, size)
    values = torch.randn(size * ROWS, 2, dtype=torch.float64)
    mine = slice(rank * ROWS, rank * ROWS + ROWS)
    assert torch.equal(exchange.gather(values[mine]), matrix @ values)
    owner = torch.arange(size).repeat_interleave(ROWS)[reads[rank]]
    assert torch.equal(exchange.owner, owner) and exchange.num_read == len(matrix)
    rows = [torch.randn(int(read.sum()), 2, dtype=torch.float64) for read in reads]
    expected = torch.zeros_like(values)
    for read, part in zip(reads, rows, strict=True):
        expected[read] += part
    found = exchange.scatter(rows[rank])
    torch.testing.assert_close(found, expected[mine], rtol=1e-14, atol=1e-14)
    for reader, part in enumerate(exchange.send_back(rows[rank])):
        whole = torch.zeros_like(values)
        whole[reads[reader]] = rows[reader]
        assert torch.equal(part, whole[mine][exchange.send[reader]])
    integers = torch.arange(size * ROWS)
    assert exchange.gather(integers[mine]).tolist() == integers[reads[rank]].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_matches_a_matrix(on_ranks, size):
    on_ranks(run_matrix, size)


def run_derivatives(group, rank, size):
    exchange, _, reads = plan(group, rank, size)
    values = torch.randn(size * ROWS, 2, dtype=torch.float64)
    mine = slice(rank * ROWS, rank * ROWS + ROWS)

    def derivatives(gather, leaf):
        value = sum((part**3).sum() for part in gather(leaf))
        (first,) = torch.autograd.grad(value, leaf, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), leaf)
        return first, second

    whole, part = values.clone().requires_grad_(), values[mine].clone().requires_grad_()
    theirs = derivatives(lambda leaf: [leaf[read] for read in reads], whole)
    ours = derivatives(lambda leaf: [exchange.gather(leaf)], part)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected[mine], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_derivatives(on_ranks, size):
    on_ranks(run_derivatives, size)


def run_fixed_order(group, rank, size):
    """The same bits at each call, for sums whose terms cancel."""
    exchange, _, _ = plan(group, rank, size)
    rows = torch.randn(exchange.num_read, 3) * 10.0 ** torch.randint(-8, 8, (exchange.num_read, 1))
    first = exchange.scatter(rows)
    assert all(torch.equal(exchange.scatter(rows), first) for _ in range(5))


def test_order_of_sums_is_fixed(on_ranks):
    on_ranks(run_fixed_order, 4)
