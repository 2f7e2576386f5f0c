"""Exchange of rows between ranks, along a plan that is made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
        return self.start_gather(values)()

    def start_gather(self, values: Tensor) -> Callable[[], Tensor]:
        """Start :meth:`gather`, and return a function that waits for its result.

        What is computed before the wait is overlapped with the exchange, in the backward pass too.
        """
        transfer = _Transfer(self._start_gather, self._start_scatter)
        ticket = _Start.apply(values, transfer)
        return lambda: _Finish.apply(ticket, transfer)

    def without_own(self) -> Exchange:
        """Return the plan that brings the rows of other ranks only."""
        me = self.ranks.rank
        send = [rows[:0] if q == me else rows for q, rows in enumerate(self.send)]
        receive = [0 if q == me else count for q, count in enumerate(self.receive)]
        return Exchange(self.ranks, self.num_rows, send, receive)

    def scatter(self, rows: Tensor) -> Tensor:
        """Return the sum of the rows of all readers, ``[num_rows, ...]``, in the order of ranks."""
        transfer = _Transfer(self._start_scatter, self._start_gather)
        return _Finish.apply(_Start.apply(rows, transfer), transfer)

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

    def _start_scatter(self, rows: Tensor) -> Callable[[], Tensor]:
        wait = self._start_return(rows)

        def finish() -> Tensor:
            out = rows.new_zeros(self.num_rows, *rows.shape[1:])
            # While the rows of other ranks are on their way.
            own = rows[self.first : self.last]
            if self._reads_all_own:
                out.copy_(own)
            else:
                out[self._own] = own
            # Rows of one reader are distinct: the order of the sum is that of the ranks.
            for index, part in zip(self.send, wait().split(self._send_counts), strict=True):
                if len(part):
                    out[index] += part
            return out

        return finish

    def _start_return(self, rows: Tensor) -> Callable[[], Tensor]:
        away = torch.cat([rows[: self.first], rows[self.last :]])
        if self.ranks.size == 1:
            return lambda: away
        return self.ranks.start_exchange(away, self._receive_counts, self._send_counts)


@dataclass
class _Transfer:
    """An exchange under way, between the autograd nodes that start and finish it.

    Autograd runs the node that was created last first. In the backward pass, :class:`_Finish`
    starts the transposed exchange, then comes what was computed between the two nodes, and
    :class:`_Start` waits.

    Args:
        start: Starts the exchange, and returns a function that waits for its result.
        start_back: The same for the transposed exchange.
    """

    start: Callable[[Tensor], Callable[[], Tensor]]
    start_back: Callable[[Tensor], Callable[[], Tensor]]
    wait: Callable[[], Tensor] | None = None
    back: _Transfer | None = None


class _Start(torch.autograd.Function):
    """Start an exchange; the output is empty and ties the node to its :class:`_Finish`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, transfer: _Transfer) -> Tensor:
        ctx.transfer = transfer
        transfer.wait = transfer.start(rows)
        return rows.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *tickets: Tensor) -> tuple[Tensor, None]:
        return _Finish.apply(tickets[0], ctx.transfer.back), None


class _Finish(torch.autograd.Function):
    """Wait for an exchange and return its rows."""

    @staticmethod
    def forward(ctx: Any, ticket: Tensor, transfer: _Transfer) -> Tensor:
        ctx.transfer = transfer
        wait, transfer.wait = transfer.wait, None  # frees the buffers
        assert wait is not None
        return wait()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        transfer = ctx.transfer
        transfer.back = _Transfer(transfer.start_back, transfer.start)
        return _Start.apply(grads[0], transfer.back), None


def runs(counts: Sequence[int], device: torch.device) -> list[Tensor]:
    """Return the indices of consecutive runs of these lengths."""
    ends = list(accumulate(counts))
    return [
        torch.arange(end - count, end, device=device)
        for end, count in zip(ends, counts, strict=True)
    ]
