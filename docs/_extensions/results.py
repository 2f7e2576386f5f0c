"""Directive ``result``: the table of a file in ``docs/runs``, with where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

RUNS = Path(__file__).parent.parent / "runs"


def cell(value: object) -> str:
    """Return a cell as Markdown."""
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) else value
    text = f"{text:.4g}" if isinstance(text, float) else str(text)
    return text.replace("|", "\\|")


def numeric(values: list[object]) -> bool:
    """Return whether the cells of a column read as figures, to align them right on one line."""
    filled = [cell(value).strip() for value in values if value not in (None, "")]
    figures = sum(text.lstrip("*+-±~<>≈ ")[:1].isdigit() for text in filled)
    return figures > len(filled) / 2 and max(map(len, filled)) <= 24


def markdown(record: dict) -> str:
    """Return the table, its origin and its notes as Markdown."""
    columns, rows = record["columns"], record["rows"]
    marks = ["---"] + [
        "---:" if numeric([row[i] for row in rows]) else "---" for i in range(1, len(columns))
    ]
    lines = [columns, marks, *([cell(value) for value in row] for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    versions = ", ".join(f"{name} {value}" for name, value in record["versions"].items())
    origin = f"`{record['command']}` · {record['date']} · {record['machine']} · {versions}"
    return f"{table}\n\n{{.provenance}}\n{origin}\n\n{record['notes']}\n"


class Result(SphinxDirective):
    """The table of ``docs/runs/NAME.json``."""

    required_arguments = 1
    option_spec = {"no-title": directives.flag, "no-notes": directives.flag}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        path = RUNS / f"{self.arguments[0]}.json"
        self.env.note_dependency(str(path))
        if not path.is_file():
            raise self.error(f"Expected the result file docs/runs/{path.name}")
        record = json.loads(path.read_text(encoding="utf-8"))
        if "no-notes" in self.options:
            record["notes"] = ""
        text = markdown(record)
        if "no-title" not in self.options:
            text = f"**{record['title']}**\n\n{text}"
        holder = nodes.container(classes=["result"])
        self.state.nested_parse(StringList(text.splitlines(), str(path)), 0, holder)
        # Short names stay on one line on narrow screens; the table scrolls.
        longest = max(len(cell(row[0])) for row in record["rows"])
        for table in holder.findall(nodes.table):
            table["classes"].append("short-names" if longest <= 20 else "long-names")
        return holder.children


def setup(app):
    """Register the directive."""
    app.add_directive("result", Result)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
