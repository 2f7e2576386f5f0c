"""Collectives over the ranks of a process group, with errors that name the rank."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

# Bytes of an error message that the other ranks get to see.
_MESSAGE = 1024


@dataclass
class Traffic:
    """Exchange statistics of this process: bytes sent, seconds in collectives, calls."""

    bytes: int = 0
    seconds: float = 0.0
    calls: int = 0


# Of all lattices of this process, for benchmarks.
traffic = Traffic()


class Ranks:
    """The ranks that share a lattice.

    Args:
        group: Process group of ``torch.distributed``; all ranks by default.
    """

    def __init__(self, group: Any = None):
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(
                "Expected an initialized process group (call torch.distributed.init_process_group "
                "in a program started by torchrun)"
            )
        rank = dist.get_rank(group)
        if rank < 0:
            raise ValueError(
                f"Expected 'group' to contain this rank (got one without rank {dist.get_rank()})"
            )
        self.group, self.rank, self.size = group, rank, dist.get_world_size(group)
        cuda = "nccl" in dist.get_backend(group)
        self.device = torch.device("cuda", torch.cuda.current_device()) if cuda else _CPU

    def all_gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all ranks, of equal shape, stacked by rank."""
        if self.size == 1:
            return tensor.unsqueeze(0)
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        with self._reported(tensor.nbytes * (self.size - 1)):
            dist.all_gather(parts, tensor.contiguous(), group=self.group)
        return torch.stack(parts)

    def reduce(self, tensor: Tensor, op: Any = dist.ReduceOp.SUM) -> Tensor:
        """Return the sum, minimum or maximum over the ranks."""
        total = tensor.clone(memory_format=torch.contiguous_format)
        if self.size > 1:
            with self._reported(tensor.nbytes):
                dist.all_reduce(total, op, group=self.group)
        return total

    def exchange_counts(self, send: Sequence[int]) -> list[int]:
        """Return how many rows each rank will send, given how many it will get."""
        counts = torch.tensor(send, dtype=torch.int64, device=self.device)
        return self.exchange(counts, [1] * self.size, [1] * self.size).tolist()

    def exchange(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Send consecutive runs of rows to the ranks, and return the runs received, by rank."""
        return self.start_exchange(rows, send, receive)()

    def start_exchange(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Any:
        """Start :meth:`exchange`, and return a function that waits for its result."""
        if self.size == 1:
            return lambda: rows
        rows = rows.contiguous()
        out = rows.new_empty(sum(receive), *rows.shape[1:])
        away = sum(send) - send[self.rank]
        row_bytes = rows.element_size() * (rows[:1].numel() if len(rows) else 0)
        with self._reported(away * row_bytes):
            work = dist.all_to_all_single(
                out, rows, list(receive), list(send), group=self.group, async_op=True
            )

        def wait() -> Tensor:
            with self._reported(0):
                work.wait()
            return out

        return wait

    def agree(self, facts: dict[str, Any], error: Exception | None = None) -> None:
        """Raise on all ranks if one has an error, or if they differ in a fact.

        Args:
            facts: What must be equal on all ranks, by name; the same names on all ranks.
            error: The error of this rank, which is raised here.
        """
        message = "" if error is None else str(error) or type(error).__name__
        lines = [message, *map(str, facts.values())]
        # Of one size on all ranks, whatever they have to say.
        text = "\0".join(lines).encode()[:_MESSAGE].ljust(_MESSAGE, b"\0")
        note = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        gathered = self.all_gather(note.to(self.device)).cpu()
        if error is not None:
            raise error
        found = [bytes(row.tolist()).decode(errors="replace").split("\0") for row in gathered]
        for rank, (message, *_) in enumerate(found):
            if message:
                raise ValueError(f"Rank {rank} of {self.size} failed: {message}")
        for position, name in enumerate(facts, 1):
            for rank, parts in enumerate(found):
                if parts[position : position + 1] != found[0][position : position + 1]:
                    raise ValueError(
                        f"Expected the same {name} on all ranks (got {found[0][position]} on "
                        f"rank 0 and {parts[position]} on rank {rank})"
                    )

    def agree_on_rows(self, operation: str, rows: Tensor) -> None:
        """Raise on all ranks unless they are about to exchange rows of the same kind.

        Gloo aborts the process otherwise. With NCCL it would stall the device, and is left to
        ``TORCH_DISTRIBUTED_DEBUG=DETAIL``.
        """
        if self.size > 1 and self.device.type == "cpu":
            kind = f"{list(rows.shape[1:])} {rows.dtype}"
            grad = rows.requires_grad and torch.is_grad_enabled()
            self.agree({"operation": operation, "kind of rows": kind, "requires_grad": grad})

    @contextmanager
    def _reported(self, sent: int) -> Iterator[None]:
        """Count bytes and seconds; errors of the backend say that a rank was lost."""
        start = time.perf_counter()
        try:
            yield
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            raise RuntimeError(
                f"Rank {self.rank} of {self.size} lost the other ranks: one has ended, or did not "
                "answer within the timeout of the process group. Start all ranks again from the "
                f"last checkpoint, as torchrun --max-restarts does ({reason})"
            ) from error
        finally:
            traffic.bytes += sent
            traffic.seconds += time.perf_counter() - start
            traffic.calls += 1


def sum_over_ranks(x: Tensor, ranks: Ranks) -> Tensor:
    """Return the sum of ``x`` over the ranks, differentiable."""
    return _Sum.apply(x, ranks)


class _Sum(torch.autograd.Function):
    """All-reduce sum whose backward is an all-reduce sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.reduce(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return sum_over_ranks(grads[0], ctx.ranks), None


_CPU = torch.device("cpu")
