"""Text and tables of an HTML page; whatever a user wrote is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from numbers import Integral, Real
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from torch import Tensor

FOLDER = Path(__file__).parent


def file_text(name: str) -> str:
    """A file that is shipped beside this one."""
    return (FOLDER / name).read_text(encoding="utf-8")


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its names replaced, once: a value that looks like a name stays."""
    return Template(template).substitute(values)


def digest(text: str) -> str:
    """How a content security policy names a script or a style that may be used."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_json(value: Any) -> str:
    """JSON that no script element ends in, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    """Numbers out of tensors and arrays of one element."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)) and np.prod(value.shape) == 1:
        return value.item()
    return value


def cell_text(value: Any) -> str:
    """A value as a reader wants it: four digits, separated thousands."""
    value = _plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return f"{float(value):.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(cell_text(item) for item in value)
    return str(value)


def _section(heading: str, head: str, rows: list[str]) -> str:
    body = "\n".join(rows)
    table = f"<table>{head}\n<tbody>\n{body}\n</tbody></table>"
    return f"<section><h2>{escape(heading)}</h2>\n{table}</section>"


def number_table(rows: Mapping[str, Mapping[str, Any]], heading: str = "Numbers") -> str:
    """A table with a row for each name; the columns are the names within the rows."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    head = "".join(f'<th scope="col" class="number">{escape(str(name))}</th>' for name in columns)
    lines = [
        f'<tr><th scope="row">{escape(str(name))}</th>'
        + "".join(f'<td class="number">{escape(cell_text(row.get(c)))}</td>' for c in columns)
        + "</tr>"
        for name, row in rows.items()
    ]
    return _section(heading, f"<thead><tr><th></th>{head}</tr></thead>", lines)


def setting_table(settings: Mapping[str, Any]) -> str:
    """A table of names and values."""
    lines = [
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(cell_text(value))}</td></tr>'
        for name, value in settings.items()
    ]
    return _section("Settings", "", lines)
