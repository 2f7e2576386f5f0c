"""The processes that train together, started by ``torchrun``, or one alone."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


def is_main_process() -> bool:
    """Whether this process is the one that writes files: the only one, or rank 0."""
    return int(os.environ.get("RANK", "0")) == 0


class Team:
    """All processes of a run; joining it starts what ``torchrun`` asked for.

    Args:
        device: Where the model is; what is summed passes through it.
    """

    def __init__(self, device: torch.device):
        self.device = device
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(_leave)
        together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if together else 0
        self.size = distributed.get_world_size() if together else 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def parallel(self, model: torch.nn.Module, find_unused_parameters: bool) -> torch.nn.Module:
        """The model whose gradients are averaged over the processes."""
        if self.size == 1:
            return model
        return DistributedDataParallel(model, find_unused_parameters=find_unused_parameters)

    def total(self, *values: float) -> list[float]:
        """The sums of numbers over all processes."""
        if self.size == 1:
            return [float(value) for value in values]
        joined = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(joined)
        return joined.tolist()

    def sums(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sums of named tensors over all processes; all have the same names."""
        joined = {name: part.detach().double().to(self.device) for name, part in parts.items()}
        if self.size > 1:
            for name in sorted(joined):
                distributed.all_reduce(joined[name])
        return joined

    def gather(self, part: Tensor) -> Tensor:
        """The tensors of all processes, stacked."""
        if self.size == 1:
            return part.unsqueeze(0)
        parts = [torch.empty_like(part, device=self.device) for _ in range(self.size)]
        distributed.all_gather(parts, part.to(self.device))
        return torch.stack(parts).cpu()

    def share(self, items: Iterable[T]) -> Iterator[tuple[T, bool]]:
        """This process's part of the items, and whether each is one of its own.

        All processes get equally many: at the end some see an item of another once more.
        """
        source = iter(items)
        while group := list(islice(source, self.size)):
            own = self.rank < len(group)
            yield group[self.rank if own else 0], own

    def steps(self, loader: object) -> int | None:
        """How many items of a loader each process gets, if the loader knows its length."""
        try:
            return -(-len(loader) // self.size)  # type: ignore[arg-type]
        except TypeError:
            return None

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            distributed.barrier()


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
