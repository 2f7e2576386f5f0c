"""OFF files with colors of vertices and faces.

Not read through trimesh: it drops all colors, takes a file with missing or surplus lines as whole,
and refuses out-of-range indices, which :class:`permutogeo.transforms.RepairMesh` can repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permutogeo.data.fields import Fields, byte_colors, pad_to_3d, unit_colors
from permutogeo.data.formats.polygons import POLYGON_COUNT, triangulate
from permutogeo.data.formats.text import (
    format_rows,
    parse_floats,
    parse_integers,
    read_text,
    text_colors,
)
from permutogeo.typing import Array

Rows = list[list[str]]


def read_off(path: Path) -> Fields:
    """Read ``OFF`` and ``COFF``; polygons become triangles."""
    text = read_text(path, "ascii")
    rows = [line.partition("#")[0].split() for line in text.splitlines()]
    num_vertices, num_faces, rows = _split_header([row for row in rows if row])
    if num_vertices < 0 or num_faces < 0 or len(rows) != num_vertices + num_faces:
        claim = f"{num_vertices} vertices and {num_faces} faces"
        raise ValueError(f"the header claims {claim}, {len(rows)} lines follow")
    fields = _vertices(rows[:num_vertices])
    if num_faces:
        fields.update(_faces(rows[num_vertices:]))
    return fields


def _split_header(rows: Rows) -> tuple[int, int, Rows]:
    """Return the numbers of vertices and faces, and the rows after the header."""
    match = re.fullmatch(r"C?OFF(\d*)", rows[0][0]) if rows else None
    if match is None:
        raise ValueError("no 'OFF' or 'COFF' in the first line")
    # Some files have the counts on the first line: "OFF 8 6 0", or even "OFF8 6 0".
    first = [match[1], *rows[0][1:]] if match[1] else rows[0][1:]
    rows = [first, *rows[1:]] if first else rows[1:]
    if not rows or len(rows[0]) < 2:
        raise ValueError("no counts of vertices and faces")
    num_vertices, num_faces = parse_integers([rows[0][:2]])[0].tolist()
    return num_vertices, num_faces, rows[1:]


def _vertices(rows: Rows) -> Fields:
    """Parse vertices: three coordinates, and colors where six or more numbers are in a row."""
    width = len(rows[0]) if rows else 3
    bad = next((i for i, row in enumerate(rows) if len(row) != width or width < 3), None)
    if bad is not None:
        raise ValueError(f"vertex {bad} has {len(rows[bad])} of {max(width, 3)} numbers")
    values = parse_floats(rows, width)
    fields: Fields = {"pos": values[:, :3]}
    if width >= 6:
        fields["x"] = text_colors(values[:, 3:6])
    return fields


def _faces(rows: Rows) -> Fields:
    """Parse faces: the number of corners, the corners, and colors where all rows have them."""
    sizes = parse_integers([row[:1] for row in rows])[:, 0].tolist()
    for i, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        if len(row) < size + 1:
            raise ValueError(f"face {i} has {len(row) - 1} of {size} corners")
    corners = [row[1 : size + 1] for row, size in zip(rows, sizes, strict=True)]
    if len(set(sizes)) == 1:
        triangles, polygon = triangulate(parse_integers(corners))
    else:
        triangles, polygon = triangulate([parse_integers([row])[0] for row in corners])
    fields = {"face": triangles, POLYGON_COUNT: np.array([len(rows)])}
    colors = [row[size + 1 :] for row, size in zip(rows, sizes, strict=True)]
    lengths = {len(color) for color in colors}
    if lengths in ({3}, {4}):
        fields["face_color"] = text_colors(parse_floats(colors, lengths.pop())[polygon, :3])
    return fields


def write_off(path: Path, fields: Fields) -> None:
    """Write the geometry and the colors ``x`` and ``face_color``."""
    pos, face = pad_to_3d(fields["pos"]), fields.get("face", np.empty((0, 3), np.int64))
    colors = _format_colors(fields.get("x"))
    face_colors = _format_colors(fields.get("face_color"))
    lines = ["OFF" if colors is None else "COFF", f"{len(pos)} {len(face)} 0"]
    lines += _append(format_rows(pos), colors)
    lines += [f"3 {row}" for row in _append(format_rows(face), face_colors)]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def _format_colors(x: Array | None) -> list[str] | None:
    """Return opaque colors from 0 to 255 as text; ``None`` if ``x`` holds no colors."""
    colors = None if x is None else byte_colors(x)
    if x is None or colors is None:
        return None
    if not np.array_equal(unit_colors(colors), x):
        colors = x.astype(np.float64) * 255
    if colors.max() <= 2:  # readers would take such dark colors for a range from 0 to 1
        return [f" {row} 1" for row in format_rows(x)]
    return [f" {row} 255" for row in format_rows(colors)]


def _append(rows: Iterator[str], ends: list[str] | None) -> Iterator[str]:
    return rows if ends is None else map("".join, zip(rows, ends, strict=True))
