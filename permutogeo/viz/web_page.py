"""Templates, tables and escaping of the HTML pages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from html import escape
from numbers import Integral, Real
from pathlib import Path, PurePath
from string import Template
from typing import Any

import numpy as np
from torch import Tensor

FOLDER = Path(__file__).parent / "web"
QUICK = "--quick"
QUICK_NOTE = "on little data, for testing: these numbers are not results."
# "/home/me/scan.ply", "~/scan.ply", "C:\\scan.ply"; not "/s".
ABSOLUTE_PATH = re.compile(r"(?:/[^/\n]+/|~/|[A-Za-z]:[/\\]|\\\\)[^\n]*[^/\\\n]/*")


def web_file(name: str) -> str:
    """Return the text of a file in ``viz/web``."""
    return (FOLDER / name).read_text(encoding="utf-8")


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replace the ``$names`` of a template once: values are not searched for names again."""
    return Template(template).substitute(values)


def csp_hash(text: str) -> str:
    """Return the SHA-256 by which a content security policy allows a script or a style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def script_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _as_scalar(value: Any) -> Any:
    """Return the number in a tensor or array of one element; other values unchanged."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)) and np.prod(value.shape) == 1:
        return value.item()
    return value


def without_folders(value: Any) -> str:
    """Return the text of a value; of a path or an absolute path in text, only the file name.

    Pages are passed on: the folders of the machine that wrote them do not belong there.
    """
    text = str(value)
    if isinstance(value, PurePath) or ABSOLUTE_PATH.fullmatch(text):
        return re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    return text


def format_cell(value: Any) -> str:
    """Format a table cell: four significant digits, thousands separated, no folders."""
    value = _as_scalar(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return f"{float(value):.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_cell(item) for item in value)
    return without_folders(value)


def _section(heading: str, head: str, rows: list[str]) -> str:
    body = "\n".join(rows)
    table = f"<table>{head}\n<tbody>\n{body}\n</tbody></table>"
    return f"<section><h2>{escape(heading)}</h2>\n{table}</section>"


def number_table(rows: Mapping[str, Mapping[str, Any]], heading: str = "Numbers") -> str:
    """Return a table with one row for each name; the columns are the keys of the rows."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    head = "".join(
        f'<th scope="col" class="number">{escape(without_folders(name))}</th>' for name in columns
    )
    lines = [
        f'<tr><th scope="row">{escape(without_folders(name))}</th>'
        + "".join(f'<td class="number">{escape(format_cell(row.get(c)))}</td>' for c in columns)
        + "</tr>"
        for name, row in rows.items()
    ]
    return _section(heading, f"<thead><tr><th></th>{head}</tr></thead>", lines)


def command_block(command: str) -> str:
    """Return the command line, and for a quick run a note that its numbers are not results."""
    if not command:
        return ""
    try:
        words = shlex.split(command)
    except ValueError:  # not a shell command line
        words = command.split()
    note = f'<p class="quick"><strong>Quick run</strong> {QUICK_NOTE}</p>' if QUICK in words else ""
    return f"{note}<pre><code>{escape(command)}</code></pre>"


def settings_table(settings: Mapping[str, Any]) -> str:
    """Return a table of names and values."""
    lines = [
        f'<tr><th scope="row">{escape(without_folders(name))}</th>'
        f"<td>{escape(format_cell(value))}</td></tr>"
        for name, value in settings.items()
    ]
    return _section("Settings", "", lines)
