import pytest
import torch
import torch.distributed as dist

from permutogeo.distributed.ranks import Ranks, sum_over_ranks, traffic


def run_collectives(group, rank, size):
    ranks = Ranks(group)
    assert (ranks.rank, ranks.size, ranks.device.type) == (rank, size, "cpu")
    assert ranks.all_gather(torch.tensor([rank])).tolist() == [[r] for r in range(size)]
    assert ranks.reduce(torch.tensor([rank]), dist.ReduceOp.MAX).tolist() == [size - 1]
    # Rank r sends q + 1 rows of r to rank q.
    send, receive = [q + 1 for q in range(size)], [rank + 1] * size
    assert ranks.exchange_counts(send) == receive
    before = traffic.bytes
    rows = torch.full((sum(send), 2), float(rank))
    got = ranks.exchange(rows, send, receive)
    assert traffic.bytes - before == (sum(send) - rank - 1) * 2 * 4
    assert torch.equal(got[:, 0], torch.arange(float(size)).repeat_interleave(rank + 1))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_collectives(on_ranks, size):
    on_ranks(run_collectives, size)


def run_sum(group, rank, size):
    """Derivatives of a function of the sum over ranks, against all terms in one process."""
    parts = torch.randn(size, 3, dtype=torch.float64)
    whole, mine = parts.clone().requires_grad_(), parts[rank].clone().requires_grad_()

    def derivatives(total, leaf, weight):
        (first,) = torch.autograd.grad((total**3).sum() * weight, leaf, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), leaf)
        return first, second

    # Every rank computes the cube of the same sum: together they make size times it.
    theirs = derivatives(whole.sum(0), whole, size)
    ours = derivatives(sum_over_ranks(mine, Ranks(group)), mine, 1)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected[rank], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3])
def test_sum_is_differentiable(on_ranks, size):
    on_ranks(run_sum, size)


def run_agree(group, rank, size):
    ranks = Ranks(group)
    ranks.agree({"color": "red"})
    with pytest.raises(ValueError, match=r"same color on all ranks \(got 0 on rank 0 and 1 on ra"):
        ranks.agree({"size": 3, "color": rank})
    error = KeyError("mine") if rank == size - 1 else None
    with pytest.raises(KeyError if error else ValueError, match="mine"):
        ranks.agree({} if error else {"color": 1}, error)
    with pytest.raises(ValueError, match="Rank 0 of" if rank else "x" * 2000):
        ranks.agree({}, ValueError("x" * 2000) if rank == 0 else None)


@pytest.mark.parametrize("size", [2, 3])
def test_agree(on_ranks, size):
    on_ranks(run_agree, size)


def run_outside(group, rank, size):
    part = dist.new_group([0])
    if rank == 0:
        assert Ranks(part).size == 1
    else:
        with pytest.raises(ValueError, match="contain this rank"):
            Ranks(part)


def test_a_rank_outside_of_the_group(on_ranks):
    on_ranks(run_outside, 4)


def run_failure(group, rank, size):
    ranks = Ranks(group)
    expected = pytest.raises(RuntimeError, match=r"Rank . of 2 lost the other ranks.*broken pipe")
    with expected, ranks._reported(0):
        raise RuntimeError("broken pipe\nand a long trace")


def test_errors_of_the_backend(on_ranks):
    on_ranks(run_failure, 2)
