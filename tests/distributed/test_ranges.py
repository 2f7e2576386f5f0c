import pytest
import torch

from permutogeo.distributed.ranges import (
    CodeRanges,
    distinct_codes,
    divide,
    divide_alone,
    find_codes,
    request,
)
from permutogeo.distributed.ranks import Ranks


def wide(code):
    """The same codes in two words."""
    return torch.stack([code // 7, code % 7], 1)


@pytest.mark.parametrize("words", [lambda code: code.unsqueeze(1), wide])
def test_owner(words):
    ranges = CodeRanges(words(torch.tensor([10, 10, 31])))
    code = torch.tensor([0, 9, 10, 11, 30, 31, 99])
    assert ranges.owner(words(code)).tolist() == [0, 0, 2, 2, 2, 3, 3]
    assert ranges.counts(words(code)) == [2, 0, 3, 2]


@pytest.mark.parametrize("words", [lambda code: code.unsqueeze(1), wide])
def test_find_codes(words):
    code, wanted = torch.tensor([2, 5, 8, 40]), torch.tensor([5, 1, 40, 99, 2])
    assert find_codes(words(wanted), words(code)).tolist() == [1, -1, 3, -1, 0]
    assert find_codes(words(wanted), words(code[:0])).tolist() == [-1] * 5
    distinct, member = distinct_codes(words(torch.tensor([9, 3, 9, 50])))
    assert torch.equal(distinct, words(torch.tensor([3, 9, 50])))
    assert member.tolist() == [1, 0, 1, 2]


def run_divide(group, rank, size, words):
    ranks, shape = Ranks(group), wide if words == 2 else lambda code: code.unsqueeze(1)
    for limit in (0, 3, 500):  # codes in all
        code = torch.randperm(2000)[:limit].sort().values
        load = torch.randint(9, (limit,)) * (torch.rand(limit) < 0.3)
        who = torch.randint(size, (limit, 3))  # a code may be on several ranks
        has = (who == rank).any(1)
        first = who[:, 0] == rank  # where its load is counted
        owned, ranges = divide(ranks, shape(code[has]), torch.where(first, load, 0)[has])
        alone = divide_alone(shape(code), load, size)
        assert torch.equal(ranges.start, alone.start)
        assert torch.equal(owned, shape(code)[alone.owner(shape(code)) == rank])
        if limit == 500:
            loads = torch.zeros(size).index_add_(0, alone.owner(shape(code)), load + 1.0)
            assert loads.max() <= loads.sum() / size + 10
        wanted = torch.arange(0, 2000, 3)
        exchange, position = request(ranks, ranges, owned, shape(wanted))
        present = torch.isin(wanted, code)
        assert torch.equal(position >= 0, present)
        values = exchange.gather(owned)
        assert torch.equal(values[position[present]], shape(wanted[present]))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("words", [1, 2])
def test_divide_and_request(on_ranks, size, words):
    on_ranks(run_divide, size, words=words)
