"""Ownership of vertices: a range of the sorted codes for each rank."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.distributed.exchange import Exchange
from permutogeo.distributed.ranks import Ranks

# Codes that each rank shows for each rank, to divide all codes for the first time.
_SAMPLES = 16
# Greater than every code.
_BEYOND = 2**63 - 1


@dataclass(frozen=True)
class CodeRanges:
    """Ranges of sorted codes, one for each of ``P`` ranks.

    Args:
        start: First code of the ranks 1, 2, ..., ``[P - 1, words]``, ascending.
    """

    start: Tensor

    def owner(self, code: Tensor) -> Tensor:
        """Return the rank that owns each code ``[n, words]``."""
        if code.shape[1] == 1:
            return torch.searchsorted(
                self.start[:, 0].contiguous(), code[:, 0].contiguous(), right=True
            )
        owner = torch.zeros(len(code), dtype=torch.int64, device=code.device)
        for start in self.start:
            owner += _at_least(code, start)
        return owner

    def counts(self, code: Tensor) -> list[int]:
        """Return how many of the codes each rank owns."""
        return torch.bincount(self.owner(code), minlength=len(self.start) + 1).tolist()


def divide(ranks: Ranks, code: Tensor, load: Tensor) -> tuple[Tensor, CodeRanges]:
    """Divide the codes of all ranks into ranges of equal load.

    The result depends on the codes and loads of all ranks together, not on which rank has which.

    Args:
        code: Distinct sorted codes of this rank, ``[n, words]``; ranks may share codes.
        load: Load of each code, ``[n]`` int64. A code that several ranks have counts one for
            itself, and the load of each.

    Returns:
        The distinct codes that this rank owns, sorted, and the ranges of all ranks.
    """
    # Sampled ranges first, in which each code has one place to be counted at.
    code, load = _meet(ranks, _sampled_ranges(ranks, code), code, load)
    ranges = _balanced_ranges(ranks, code, load)
    send = ranges.counts(code)
    receive = ranks.exchange_counts(send)
    return ranks.exchange(code, send, receive), ranges


def divide_alone(code: Tensor, load: Tensor, parts: int) -> CodeRanges:
    """Divide sorted codes that are all here into ranges of equal load, as :func:`divide` does."""
    before = (load + 1).cumsum(0) - (load + 1)
    place = torch.searchsorted(before, _targets(int((load + 1).sum()), parts).to(code.device))
    return CodeRanges(_with_end(code)[place])


def distinct_codes(code: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct codes, sorted, and the position of each code among them."""
    if code.shape[1] > 1:
        return torch.unique(code, dim=0, return_inverse=True)
    distinct, member = torch.unique(code[:, 0], return_inverse=True)
    return distinct.unsqueeze(1), member


def find_codes(wanted: Tensor, code: Tensor) -> Tensor:
    """Return the position of each wanted code in sorted codes, ``-1`` where absent."""
    if code.shape[1] > 1:
        return ops.find(wanted, code, ops.hash_codes(code)).long()
    if len(code) == 0:
        return torch.full((len(wanted),), -1, device=code.device)
    place = torch.searchsorted(code[:, 0].contiguous(), wanted[:, 0].contiguous())
    place = place.clamp(max=len(code) - 1)
    return place.masked_fill(code[place, 0] != wanted[:, 0], -1)


def request(
    ranks: Ranks, ranges: CodeRanges, owned: Tensor, wanted: Tensor
) -> tuple[Exchange, Tensor]:
    """Return the exchange by which this rank reads the vertices of the codes that it wants.

    Args:
        owned: Codes of the vertices that this rank owns.
        wanted: Distinct sorted codes, ``[n, words]``.

    Returns:
        The exchange, and the row of each wanted code among the rows read, ``[n]``; ``-1`` where the
        lattice has no such vertex.
    """
    send = ranges.counts(wanted)
    receive = ranks.exchange_counts(send)
    asked = find_codes(ranks.exchange(wanted, send, receive), owned)
    found = ranks.exchange((asked >= 0).to(torch.uint8), receive, send).bool()
    rows = [part[part >= 0] for part in asked.split(receive)]
    counts = [int(part.sum()) for part in found.split(send)]
    position = (found.cumsum(0) - 1).masked_fill(~found, -1)
    return Exchange(ranks, len(owned), rows, counts), position


def _sampled_ranges(ranks: Ranks, code: Tensor) -> CodeRanges:
    count = _SAMPLES * ranks.size
    place = torch.arange(count, device=code.device) * len(code) // count
    sample = code[place] if len(code) else code.new_full((count, code.shape[1]), _BEYOND)
    samples = _sorted(ranks.all_gather(sample).flatten(0, 1))
    known = int((samples[:, 0] < _BEYOND).sum())
    samples = samples[:known]
    place = torch.arange(1, ranks.size, device=code.device) * known // ranks.size
    return CodeRanges(_with_end(samples)[place])


def _meet(ranks: Ranks, ranges: CodeRanges, code: Tensor, load: Tensor) -> tuple[Tensor, Tensor]:
    """Send the codes to their ranges, and return the distinct ones there with their loads."""
    send = ranges.counts(code)
    receive = ranks.exchange_counts(send)
    received = ranks.exchange(torch.cat([code, load.unsqueeze(1)], 1), send, receive)
    code, load = received[:, :-1], received[:, -1]
    distinct, member = distinct_codes(code)
    total = torch.ones(len(distinct), dtype=torch.int64, device=code.device)
    return distinct, total.index_add_(0, member, load)


def _balanced_ranges(ranks: Ranks, code: Tensor, load: Tensor) -> CodeRanges:
    """Return the ranges of equal load of codes that are sorted over the ranks."""
    loads = ranks.all_gather(load.sum().reshape(1))[:, 0]
    before = loads[: ranks.rank].sum() + load.cumsum(0) - load
    target = _targets(int(loads.sum()), ranks.size).to(code.device)
    starts = ranks.all_gather(_with_end(code)[torch.searchsorted(before, target)])
    # A range starts at the first code that has its load before it: on the first rank with one.
    first = (starts[..., 0] < _BEYOND).to(torch.uint8).argmax(0)
    return CodeRanges(starts[first, torch.arange(len(first), device=code.device)])


def _targets(total: int, parts: int) -> Tensor:
    return torch.tensor([total * part // parts for part in range(1, parts)], dtype=torch.int64)


def _with_end(code: Tensor) -> Tensor:
    """Append a code that is greater than every other."""
    return torch.cat([code, code.new_full((1, code.shape[1]), _BEYOND)])


def _sorted(code: Tensor) -> Tensor:
    """Return codes in lexicographic order."""
    for word in reversed(range(code.shape[1])):
        code = code[code[:, word].argsort(stable=True)]
    return code


def _at_least(code: Tensor, start: Tensor) -> Tensor:
    """Return which codes ``[n, words]`` are not before ``start`` in lexicographic order."""
    result = torch.ones(len(code), dtype=torch.bool, device=code.device)
    for word in reversed(range(code.shape[1])):
        equal = code[:, word] == start[word]
        result = (code[:, word] > start[word]) | (equal & result)
    return result
