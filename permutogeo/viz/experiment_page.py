"""One HTML page for an experiment: what was run, what came out, and what it looks like."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from permutogeo._version import __version__
from permutogeo.data._files import read_with, replacing, suffix_of
from permutogeo.viz._page import digest, file_text, fill, number_table, setting_table

TYPES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}

Pictures = Mapping[str, Any]
Table = Mapping[str, Mapping[str, Any]]


def experiment_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    text: str = "",
    command: str = "",
    tables: Mapping[str, Table] | None = None,
    pictures: Pictures | None = None,
    curves: Pictures | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    r"""Writes one HTML page with all that an experiment has to show.

    Pictures are held in the page itself: it asks the network for nothing, runs no script, and is
    read in light and in dark.

    Args:
        path: Where to write (``.html``), whole or not at all.
        title: The title of the page.
        text: What the experiment is, a paragraph for each that an empty line sets apart.
        command: How to run it again.
        tables: Headings, and under each a table: for each row its name, and its cells by the names
            of their columns.
        pictures: Captions, and a picture each: a file (``.png``, ``.jpg``, ``.webp``) or a PIL
            image.
        curves: Likewise, of training; they stand side by side below the pictures.
        settings: A table of names and values.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> from permutogeo.viz import experiment_page
        >>> rows = {"noisy": {"PSNR": 20.17}, "learned": {"PSNR": 26.58}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = experiment_page(
        ...         Path(folder, "page.html"),
        ...         title="Denoising",
        ...         tables={"Test images": rows},
        ...         pictures={"A photograph": Image.new("RGB", (32, 32))},
        ...     )
        ...     "26.58" in path.read_text(encoding="utf-8")
        True
    """
    path = Path(path)
    suffix_of(path, (".html", ".htm"))
    style = file_text("_experiment.css")
    values = {
        "title": escape(title),
        "text": "\n".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip()),
        "command": f"<pre><code>{escape(command)}</code></pre>" if command else "",
        "tables": "\n".join(number_table(rows, name) for name, rows in (tables or {}).items()),
        "pictures": _figures("pictures", pictures or {}),
        "curves": _figures("curves", curves or {}),
        "settings": setting_table(settings) if settings else "",
        "version": __version__,
        "style": style,
        "style_hash": digest(style),
    }
    with replacing(path) as temporary:
        temporary.write_text(fill(file_text("_experiment.html"), values), encoding="utf-8")
    return path


def _figures(kind: str, pictures: Pictures) -> str:
    if not pictures:
        return ""
    figures = "\n".join(_figure(caption, picture) for caption, picture in pictures.items())
    return f'<div class="{kind}">\n{figures}\n</div>'


def _figure(caption: str, picture: Any) -> str:
    kind, content = _content(picture)
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    shown = escape(caption)
    return f'<figure><img src="{source}" alt="{shown}"><figcaption>{shown}</figcaption></figure>'


def _content(picture: Any) -> tuple[str, bytes]:
    """The type and the bytes of a picture, as its file has them."""
    if isinstance(picture, (str, os.PathLike)):
        file = Path(picture)
        return TYPES[suffix_of(file, TYPES)], read_with(file, Path.read_bytes, "a picture")
    if not type(picture).__module__.startswith("PIL."):
        got = f"{type(picture).__module__}.{type(picture).__name__}"
        raise TypeError(f"experiment_page: Expected a file or a PIL image (got {got})")
    buffer = io.BytesIO()
    picture.save(buffer, format="png")
    return "png", buffer.getvalue()
