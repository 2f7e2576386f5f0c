"""Options that several commands share, and their checks."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command whose help names arguments as ``IMAGE``, without braces and Python types."""

    def get_help(self, ctx: Any) -> str:
        usage, line, rest = super().get_help(ctx).partition("\n")
        usage = re.sub(r"{(\w+)}", r"\1", usage)
        return usage + line + re.sub(r"<list\[\w+\]>", lambda found: " " * len(found[0]), rest)


Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|local[:N]",
        help="Run the files on a Dask scheduler (tcp://host:8786), or in N processes of this "
        "machine. Needs permutogeo[cluster].",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Skip files that an earlier run made from the same inputs, with the same settings "
        "and version.",
    ),
]
WorkerMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory of a local worker, such as 4GB; it is restarted "
        "above it. By default its part of 80 % of the machine's.",
    ),
]
Device = Annotated[str, typer.Option(help="Device to compute on: cpu, cuda, cuda:0, …")]


@dataclass(frozen=True)
class ClusterOptions:
    """Options of runs over many files: scheduler, resuming, memory of a worker.

    Args:
        scheduler: Dask scheduler, or ``None`` for this process.
        resume: Whether to skip files that are done.
        worker_memory: Memory of a local worker in bytes.
    """

    scheduler: str | None = None
    resume: bool = False
    worker_memory: int | None = None

    @classmethod
    def parse(
        cls, scheduler: str | None, resume: bool, worker_memory: str | None
    ) -> "ClusterOptions":
        """Return the options of the command line; raises for those that cannot be used."""
        if scheduler is not None:
            from permutogeo.cluster import check_scheduler

            check_scheduler(scheduler)
        size = parse_size("--worker-memory", worker_memory)
        if size is not None and not (scheduler or "").startswith("local"):
            raise ValueError("Expected --worker-memory only with --scheduler local")
        return cls(scheduler, resume, size)

    def check_folder(self, is_folder: bool) -> None:
        """Raise if options of runs over many files are given for a single one."""
        if not is_folder and (self.scheduler is not None or self.resume):
            raise ValueError("Expected a folder of images with --scheduler or --resume")


def check_device(device: str) -> None:
    """Raise unless torch can compute on the device."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"Expected a device of this machine (got '{device}': {reason})") from error


def parse_size(option: str, text: str | None) -> int | None:
    """Return a size such as ``4GB`` in bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise ValueError(f"Expected {option} as a size such as 4GB (got '{text}')")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " "))


def check_positive(option: str, value: float) -> None:
    """Raise unless the value of an option is a finite number greater than 0."""
    if not 0 < value < float("inf"):
        raise ValueError(f"Expected {option} greater than 0 (got {value:g})")
