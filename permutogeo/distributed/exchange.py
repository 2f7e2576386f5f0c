"""Exchange of rows between ranks, along a plan that is made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from permutogeo.distributed.ranks import Ranks


class Exchange:
    """A plan by which each rank reads rows of other ranks.

    :meth:`gather` copies rows from the ranks that own them to those that read them, :meth:`scatter`
    is its transpose: it sums what the readers return. Each is the backward of the other.

    Args:
        ranks: The ranks.
        num_rows: Rows that this rank owns.
        send: For each rank, the rows that it reads from this one, each at most once. The entry of
            this rank itself holds the own rows that it reads.
        receive: For each rank, how many rows this one reads from it.
    """

    def __init__(self, ranks: Ranks, num_rows: int, send: Sequence[Tensor], receive: Sequence[int]):
        me = ranks.rank
        self.ranks, self.num_rows = ranks, num_rows
        self.send, self.receive = list(send), list(receive)
        self.num_read = sum(receive)
        self.first = sum(receive[:me])  # own rows among those read
        self.last = self.first + receive[me]
        self._send_counts = [0 if q == me else len(rows) for q, rows in enumerate(send)]
        self._receive_counts = [0 if q == me else count for q, count in enumerate(receive)]

    @classmethod
    def push(cls, ranks: Ranks, num_rows: int, send: Sequence[Tensor]) -> Exchange:
        """Return the plan in which the owners know who reads which rows."""
        receive = ranks.exchange_counts([len(rows) for rows in send])
        return cls(ranks, num_rows, send, receive)

    def gather(self, values: Tensor) -> Tensor:
        """Return the rows that this rank reads, ``[num_read, ...]``, sorted by rank.

        Args:
            values: The rows that this rank owns, ``[num_rows, ...]``.
        """
        return _Gather.apply(values, self, None)

    def start_gather(self, values: Tensor) -> Callable[[], Tensor]:
        """Start :meth:`gather`, and return a function that waits for its result."""
        finish = self._start_gather(values.detach())
        return lambda: _Gather.apply(values, self, finish)

    def without_own(self) -> Exchange:
        """Return the plan that brings the rows of other ranks only."""
        me = self.ranks.rank
        send = [rows[:0] if q == me else rows for q, rows in enumerate(self.send)]
        receive = [0 if q == me else count for q, count in enumerate(self.receive)]
        return Exchange(self.ranks, self.num_rows, send, receive)

    def scatter(self, rows: Tensor) -> Tensor:
        """Return the sum of the rows of all readers, ``[num_rows, ...]``, in the order of ranks."""
        return _Scatter.apply(rows, self)

    def send_back(self, rows: Tensor) -> list[Tensor]:
        """Return what each rank has at the rows that it reads from this one."""
        parts = list(self._start_return(rows)().split(self._send_counts))
        parts[self.ranks.rank] = rows[self.first : self.last]
        return parts

    @property
    def sent_rows(self) -> int:
        """Rows that a gather sends to other ranks."""
        return sum(self._send_counts)

    @cached_property
    def owner(self) -> Tensor:
        """The rank that owns each row read, ``[num_read]``."""
        number = torch.arange(self.ranks.size, device=self._own.device)
        return number.repeat_interleave(torch.tensor(self.receive, device=number.device))

    @property
    def _own(self) -> Tensor:
        return self.send[self.ranks.rank]

    @cached_property
    def _reads_all_own(self) -> bool:
        """Whether this rank reads all of its own rows, in their order."""
        return len(self._own) == self.num_rows

    @cached_property
    def _away(self) -> Tensor:
        """Own rows that other ranks read."""
        return torch.cat([rows for q, rows in enumerate(self.send) if q != self.ranks.rank])

    def _start_gather(self, values: Tensor) -> Callable[[], Tensor]:
        if self.ranks.size == 1:
            return lambda: values.clone() if self._reads_all_own else values[self._own]
        wait = self.ranks.start_exchange(
            values[self._away], self._send_counts, self._receive_counts
        )

        def finish() -> Tensor:
            if self.first == self.last:
                return wait()
            out = values.new_empty(self.num_read, *values.shape[1:])
            # While the rows of other ranks are on their way.
            own = out[self.first : self.last]
            own.copy_(values if self._reads_all_own else values[self._own])
            received = wait()
            out[: self.first] = received[: self.first]
            out[self.last :] = received[self.first :]
            return out

        return finish

    def _scatter(self, rows: Tensor) -> Tensor:
        wait = self._start_return(rows)
        out = rows.new_zeros(self.num_rows, *rows.shape[1:])
        # Rows of one reader are distinct: the order of the sum is that of the ranks.
        own = rows[self.first : self.last]
        if self._reads_all_own:
            out.copy_(own)
        else:
            out[self._own] = own
        for index, part in zip(self.send, wait().split(self._send_counts), strict=True):
            if len(part):
                out[index] += part
        return out

    def _start_return(self, rows: Tensor) -> Callable[[], Tensor]:
        away = torch.cat([rows[: self.first], rows[self.last :]])
        if self.ranks.size == 1:
            return lambda: away
        return self.ranks.start_exchange(away, self._receive_counts, self._send_counts)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, exchange: Exchange, finish: Callable[[], Tensor] | None
    ) -> Tensor:
        ctx.exchange = exchange
        return (finish or exchange._start_gather(values))()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.exchange.scatter(grads[0]), None, None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return exchange._scatter(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.gather(grads[0]), None


def runs(counts: Sequence[int], device: torch.device) -> list[Tensor]:
    """Return the indices of consecutive runs of these lengths."""
    ends = list(accumulate(counts))
    return [
        torch.arange(end - count, end, device=device)
        for end, count in zip(ends, counts, strict=True)
    ]
