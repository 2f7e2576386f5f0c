"""Logs of a run: CSV table, PNG curves and a progress bar."""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from permutogeo.data.files import replacing

Row = dict[str, float]


def write_csv(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write a table; a failed write leaves the previous file in place.

    Args:
        rows: Dictionaries by column; the table has the columns of all rows.
        path: The ``.csv`` file.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(Path(path)) as temporary, open(temporary, "w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)


def check_matplotlib() -> None:
    """Raise if Matplotlib is missing: before a run rather than at its end."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("Curves need matplotlib: 'pip install matplotlib'")


def draw_curve(
    rows: Sequence[Mapping[str, float]], path: str | os.PathLike[str], x: str = "epoch"
) -> None:
    """Draw the losses in one panel and each metric in its own.

    Args:
        rows: One row per epoch, as returned by :meth:`Trainer.fit`.
        path: The image file; a failed write leaves the previous one in place.
        x: Column of the horizontal axis, such as ``"epoch"``, ``"steps"`` or ``"seconds"``.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for row in rows for name in row))
    losses = [name for name in names if name.endswith("loss")]
    others = [n for n in names if n not in losses and n not in ("epoch", "steps", "seconds", "lr")]
    panels = [losses, *([name] for name in others)]
    figure = Figure(figsize=(4.5 * len(panels), 3.2), layout="constrained")
    for axes, columns in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for name in columns:
            drawn = [(row[x], row[name]) for row in rows if name in row]
            axes.plot(*zip(*drawn, strict=True), marker=".", label=name.replace("_", " "))
        axes.set_xlabel(x)
        axes.grid(alpha=0.3)
        axes.legend()
    with replacing(Path(path)) as temporary:
        figure.savefig(temporary, dpi=120)


class ProgressBar:
    """Progress bar on standard error.

    Args:
        shown: Whether to show it; by default if standard error is a terminal.
    """

    def __init__(self, shown: bool | None = None):
        from rich.console import Console
        from rich.progress import Progress

        wanted = sys.stderr.isatty() if shown is None else shown
        console = Console(stderr=True, force_terminal=wanted)
        # Printed lines go above the bar, unless standard output is redirected.
        self._bar = Progress(
            console=console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            disable=not wanted,
        )
        self._task = self._bar.add_task("", visible=False)

    def start(self, text: str, total: int | None, done: int = 0) -> None:
        """Start a new bar with ``done`` of ``total`` steps."""
        self._bar.reset(self._task, total=total, completed=done, description=text, visible=True)

    def advance(self, text: str) -> None:
        """Advance by one step."""
        self._bar.update(self._task, advance=1, description=text)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
