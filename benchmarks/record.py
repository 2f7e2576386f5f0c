"""Result files: a table with the command, date, machine and versions that it comes from.

The documentation shows them; ``docs/runs/README.md`` describes the format.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from argparse import Namespace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

VERSIONS = ("permutogeo", "python", "torch", "warp", "torch_geometric", "numpy")


def command_line() -> str:
    """Return the command as typed, from the root of the repository."""
    program = Path(sys.argv[0])
    if program.suffix == ".py":
        parts = program.resolve().parts
        start = max((i for i, part in enumerate(parts) if part == "examples"), default=-1)
        return shlex.join(["python", "/".join(parts[start:]), *sys.argv[1:]])
    return shlex.join([program.name, *sys.argv[1:]])


def machine() -> str:
    """Return the processor, the number of cores in use and the memory."""
    from permutogeo.cli.info import environment

    report = environment()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    parts = [report["cpu"], f"{cores} cores", f"{size / 2**30:.0f} GB" if size else ""]
    return ", ".join(part for part in (*parts, *report["cuda_devices"]) if part)


def write_table(
    path: str | Path,
    title: str,
    columns: list[str],
    rows: list[list[Any]],
    command: str | None = None,
    notes: str | None = None,
) -> Path:
    """Write a table with the command, date, machine and versions of this process.

    Without ``notes``, the notes of a file that is replaced are kept.
    """
    from permutogeo.cli.info import environment

    path, report = Path(path), environment()
    if notes is None:
        notes = json.loads(path.read_text())["notes"] if path.is_file() else ""
    record = {
        "title": title,
        "command": command or command_line(),
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": {name: report[name] for name in VERSIONS},
        "columns": columns,
        "rows": rows,
        "notes": notes,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    # One line a row.
    text = re.sub(r"\[\n\s+([^][{}]*?)\n\s+\]", lambda m: f"[{_joined(m[1])}]", text)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def write_results(args: Namespace, **measured: Any) -> Path:
    """Write ``results.json`` to ``args.output``, with command, time, versions and settings."""
    from torch import get_num_threads

    from permutogeo.cli.info import environment

    report = environment()
    record = {
        "command": command_line(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "threads": get_num_threads(),
        "versions": {name: report[name] for name in VERSIONS},
        "settings": {name: str(value) for name, value in vars(args).items()},
        **measured,
    }
    args.output.mkdir(parents=True, exist_ok=True)
    path: Path = args.output / "results.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path


def _joined(lines: str) -> str:
    return " ".join(line.strip() for line in lines.splitlines())
