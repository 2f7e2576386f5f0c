"""Self-contained HTML page of an experiment: command, results, pictures, settings."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from permutogeo import __version__
from permutogeo.data.files import read_file, replacing, suffix_of
from permutogeo.viz.web_page import (
    command_block,
    csp_hash,
    fill_template,
    number_table,
    settings_table,
    web_file,
    without_folders,
)

IMAGE_TYPES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}

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
    r"""Writes one self-contained HTML page for an experiment.

    Pictures are embedded; the page loads nothing from the network, runs no script, and follows
    the light or dark theme of the reader.

    Args:
        path: Output file (``.html``), written atomically.
        title: Title of the page.
        text: Description; empty lines separate paragraphs.
        command: Command line as typed. The page of a run with ``--quick`` is marked as such.
        tables: Tables by heading. A table maps row names to cells by column name.
        pictures: Pictures by caption: a file (``.png``, ``.jpg``, ``.webp``) or a PIL image.
        curves: Training curves by caption, shown side by side below the pictures.
        settings: Names and values of a table.

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
    style = web_file("experiment.css")
    values = {
        "title": escape(without_folders(title)),
        "text": "\n".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip()),
        "command": command_block(command),
        "tables": "\n".join(number_table(rows, name) for name, rows in (tables or {}).items()),
        "pictures": _figures("pictures", pictures or {}),
        "curves": _figures("curves", curves or {}),
        "settings": settings_table(settings) if settings else "",
        "version": __version__,
        "style": style,
        "style_hash": csp_hash(style),
    }
    with replacing(path) as temporary:
        temporary.write_text(fill_template(web_file("experiment.html"), values), encoding="utf-8")
    return path


def _figures(kind: str, pictures: Pictures) -> str:
    if not pictures:
        return ""
    figures = "\n".join(_figure(caption, picture) for caption, picture in pictures.items())
    return f'<div class="{kind}">\n{figures}\n</div>'


def _figure(caption: str, picture: Any) -> str:
    kind, content = _encode(picture)
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    shown = escape(without_folders(caption))
    return f'<figure><img src="{source}" alt="{shown}"><figcaption>{shown}</figcaption></figure>'


def _encode(picture: Any) -> tuple[str, bytes]:
    """Return image type and encoded bytes of a picture."""
    if isinstance(picture, (str, os.PathLike)):
        file = Path(picture)
        kind = IMAGE_TYPES[suffix_of(file, IMAGE_TYPES)]
        return kind, read_file(file, Path.read_bytes, "a picture")
    if not type(picture).__module__.startswith("PIL."):
        got = f"{type(picture).__module__}.{type(picture).__name__}"
        raise TypeError(f"experiment_page: Expected a file or a PIL image (got {got})")
    buffer = io.BytesIO()
    picture.save(buffer, format="png")
    return "png", buffer.getvalue()
