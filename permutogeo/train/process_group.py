"""The processes of a distributed run started by ``torchrun``, or a single process."""

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
    """Return whether this process is rank 0, the one that writes files."""
    return int(os.environ.get("RANK", "0")) == 0


class ProcessGroup:
    """All processes of a run; initializes ``torch.distributed`` if ``torchrun`` asks for it.

    Args:
        device: Device of the model, used for reductions.
    """

    def __init__(self, device: torch.device):
        self.device = device
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(_destroy)
        initialized = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if initialized else 0
        self.size = distributed.get_world_size() if initialized else 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def wrap(self, model: torch.nn.Module, find_unused_parameters: bool) -> torch.nn.Module:
        """Return the model with its gradients averaged over the processes."""
        if self.size == 1:
            return model
        return DistributedDataParallel(model, find_unused_parameters=find_unused_parameters)

    def sum(self, *values: float) -> list[float]:
        """Return the sums of numbers over all processes."""
        if self.size == 1:
            return [float(value) for value in values]
        joined = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(joined)
        return joined.tolist()

    def sum_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums of named tensors over all processes, which have the same names."""
        sums = {name: part.detach().double().to(self.device) for name, part in tensors.items()}
        if self.size > 1:
            for name in sorted(sums):
                distributed.all_reduce(sums[name])
        return sums

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all processes, stacked by rank."""
        if self.size == 1:
            return tensor.unsqueeze(0)
        parts = [torch.empty_like(tensor, device=self.device) for _ in range(self.size)]
        distributed.all_gather(parts, tensor.to(self.device))
        return torch.stack(parts).cpu()

    def split(self, items: Iterable[T]) -> Iterator[tuple[T, bool]]:
        """Yield the items of this process, and whether each counts.

        All processes get the same number of items. If the last group is incomplete, the processes
        without an item get a repeated one that does not count.
        """
        source = iter(items)
        while group := list(islice(source, self.size)):
            counts = self.rank < len(group)
            yield group[self.rank if counts else 0], counts

    def num_steps(self, loader: object) -> int | None:
        """Return the number of items per process, or ``None`` if the loader has no length."""
        try:
            return -(-len(loader) // self.size)  # type: ignore[arg-type]
        except TypeError:
            return None

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            distributed.barrier()


def _destroy() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
