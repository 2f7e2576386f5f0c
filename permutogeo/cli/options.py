"""Options that several commands share, and their checks."""

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command whose help names arguments as ``IMAGE``, without braces and Python types."""

    def get_help(self, ctx: Any) -> str:
        usage, line, rest = super().get_help(ctx).partition("\n")
        usage = re.sub(r"{(\w+)}", r"\1", usage)
        return usage + line + re.sub(r"<list\[\w+\]>", lambda found: " " * len(found[0]), rest)


Device = Annotated[str, typer.Option(help="Device to compute on: cpu, cuda, cuda:0, …")]


def check_device(device: str) -> None:
    """Raise unless torch can compute on the device."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"Expected a device of this machine (got '{device}': {reason})") from error


def check_positive(option: str, value: float) -> None:
    """Raise unless the value of an option is a finite number greater than 0."""
    if not 0 < value < float("inf"):
        raise ValueError(f"Expected {option} greater than 0 (got {value:g})")
