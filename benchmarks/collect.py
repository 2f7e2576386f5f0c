"""One table of several runs of a script, from the ``results.json`` of each.

A row for each run and row of its table, named by the options of the run::

    python -m permutogeo.benchmarks.collect runs/first runs/second \\
        --columns "val %" "test %" --title TITLE --output docs/runs/NAME.json
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from permutogeo.benchmarks.experiment import text_of
from permutogeo.benchmarks.record import write_table

# Where a run wrote to; what its rows are named by already.
_DROPPED = ("--output", "--only")


def collect(folders: Iterable[Path], columns: Sequence[str]) -> tuple[str, list[list[Any]]]:
    """Return the command that all runs share, and a row for each row of each run.

    Args:
        folders: Folders with a ``results.json``.
        columns: Columns of their first tables to show.
    """
    scripts, rows = set(), []
    for folder in folders:
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        script, options = split_command(results["command"])
        scripts.add(script)
        for name, cells in next(iter(results["tables"].values())).items():
            label = f"{name}, `{options}`" if options else name
            rows.append([label, *(text_of(cells.get(column)) for column in columns)])
    if len(scripts) != 1:
        raise ValueError(f"Expected runs of one script (got {sorted(scripts)})")
    return scripts.pop(), rows


def split_command(command: str) -> tuple[str, str]:
    """Return the program, and the options that tell runs apart."""
    words, kept, dropped = shlex.split(command), [], False
    first = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    for word in words[first:]:
        dropped = word in _DROPPED or (dropped and not word.startswith("--"))
        if not dropped:
            kept.append(word)
    return shlex.join(words[:first]), shlex.join(kept)


def main() -> None:
    """Write the table of the runs that the command line names."""
    parser = argparse.ArgumentParser(description="One table of several runs of a script")
    parser.add_argument("folders", type=Path, nargs="+", help="outputs of the runs")
    parser.add_argument("--columns", nargs="+", required=True, help="columns of their tables")
    parser.add_argument("--title", required=True)
    parser.add_argument("--notes", default=None, help="Markdown; else those of the old file")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    args = parser.parse_args()
    command, rows = collect(args.folders, args.columns)
    script = Path(command.removeprefix("python "))
    if script.is_file() and "PERMUTOGEO_DATA" in script.read_text(encoding="utf-8"):
        command = f"PERMUTOGEO_DATA=/path/to/data {command}"
    write_table(args.output, args.title, ["", *args.columns], rows, command, args.notes)


if __name__ == "__main__":
    main()
