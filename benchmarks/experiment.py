"""Command line, tables and records of the experiments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from permutogeo.benchmarks.record import command_line, write_results, write_table
from permutogeo.viz import experiment_page

#: The option of a script that reads data: default and help.
DATA = (None, "folder of the data; else PERMUTOGEO_DATA")

Rows = Mapping[str, Mapping[str, Any]]


def arguments(
    text: str | None, quick: str = "few data, small networks, few steps", **options: Any
) -> argparse.ArgumentParser:
    """Return a parser of the common options and of further ones.

    Args:
        text: The docstring of the script, whose first line is shown.
        quick: What ``--quick`` does.
        options: Default of each further option, or a pair of default and help. ``False`` makes it
            a flag, ``None`` a string.
    """
    parser = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    folder = Path("runs") / Path(sys.argv[0]).stem
    parser.add_argument(
        "--output", type=Path, default=folder, help="folder to write to and to resume from"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help=quick)
    for name, option in options.items():
        default, shown = option if isinstance(option, tuple) else (option, None)
        kind = str if default is None else type(default)
        settings = {"action": "store_true"} if kind is bool else {"type": kind, "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", help=shown, **settings)
    return parser


def load_or_exit(dataset: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Return a dataset, or exit with the message that names its missing files."""
    try:
        return dataset(*args, **settings)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def record(
    args: argparse.Namespace,
    title: str,
    tables: Mapping[str, Rows],
    pictures: Mapping[str, Any] | None = None,
    curves: Mapping[str, Any] | None = None,
    text: str = "",
    **measured: Any,
) -> None:
    """Print tables; write them to ``results.json``, as files for ``docs/runs`` and to a page.

    Args:
        args: The parsed command line.
        title: Title of the page.
        tables: Rows by name, for each table title.
        pictures: Files by caption, for the page.
        curves: Files by caption, for the page; by default the curves of all trained models.
        text: Description on the page.
        measured: Further measurements for ``results.json``.
    """
    for number, (head, rows) in enumerate(tables.items()):
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        cells = [[name, *(text_of(row.get(c)) for c in columns)] for name, row in rows.items()]
        print_table(head, [["", *columns], *cells])
        write_table(args.output / f"table_{number}.json", head, ["", *columns], cells)
    if curves is None:
        found = sorted(args.output.rglob("curve.png"))
        curves = {str(path.parent.relative_to(args.output)): path for path in found}
    write_results(args, tables=tables, **measured)
    experiment_page(
        args.output / "page.html", title=title, text=text, command=command_line(), tables=tables,
        pictures=pictures, curves=curves, settings=vars(args),
    )  # fmt: skip


def text_of(value: Any) -> str:
    """Return a cell: numbers with four digits, a dash for None."""
    if isinstance(value, tuple):
        return ", ".join(map(text_of, value))
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_table(title: str, lines: list[list[str]]) -> None:
    """Print cells in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for name, *cells in lines:
        aligned = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([f"{name:{widths[0]}}", *aligned]), flush=True)
