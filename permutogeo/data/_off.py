"""OFF files, with their counts checked: trimesh reads on where the header is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permutogeo.data._fields import (
    Array,
    Fields,
    byte_colors,
    text_colors,
    text_rows,
    three_axes,
    unit_colors,
)
from permutogeo.data._polygons import triangulate


def read_off(path: Path) -> Fields:
    """Read ``OFF`` and ``COFF``; faces become triangles."""
    text = path.read_text(encoding="ascii", errors="strict")
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    lines = [line for line in lines if line]
    match = re.fullmatch(r"C?OFF(\d*)", lines[0][0]) if lines else None
    if match is None:
        raise ValueError("no 'OFF' or 'COFF' in the first line")
    # Some files have the counts on the first line: "OFF 8 6 0", or even "OFF8 6 0".
    counts = [match[1], *lines[0][1:]] if match[1] else lines[0][1:]
    lines = [counts, *lines[1:]] if counts else lines[1:]
    if not lines or len(lines[0]) < 2:
        raise ValueError("no counts of vertices and faces")
    count, num_faces = int(lines[0][0]), int(lines[0][1])
    rows = lines[1:]
    if count < 0 or num_faces < 0 or len(rows) != count + num_faces:
        claim = f"{count} vertices and {num_faces} faces"
        raise ValueError(f"the header claims {claim}, {len(rows)} lines follow")
    width = len(rows[0]) if count else 3
    bad = next((i for i, row in enumerate(rows[:count]) if len(row) != width or width < 3), None)
    if bad is not None:
        raise ValueError(f"vertex {bad} has {len(rows[bad])} of {max(width, 3)} numbers")
    values = np.array(rows[:count], np.float64).reshape(count, width)
    fields: Fields = {"pos": values[:, :3]}
    if width >= 6:
        fields["x"] = text_colors(values[:, 3:6])
    if num_faces:
        fields["face"], owner = triangulate(_polygons(rows[count:]))
        colors = [row[int(row[0]) + 1 :] for row in rows[count:]]
        if {len(color) for color in colors} <= {3, 4} and len({len(c) for c in colors}) == 1:
            fields["face_color"] = text_colors(np.array(colors, np.float64)[owner, :3])
    return fields


def _polygons(rows: list[list[str]]) -> Array | list[Array]:
    polygons = []
    for i, row in enumerate(rows):
        size = int(row[0])
        if len(row) < size + 1:
            raise ValueError(f"face {i} has {len(row) - 1} of {size} corners")
        polygons.append(row[1 : size + 1])
    if len({len(polygon) for polygon in polygons}) == 1:
        return np.array(polygons, dtype=np.int64).reshape(len(polygons), -1)
    return [np.array(polygon, dtype=np.int64) for polygon in polygons]


def write_off(path: Path, fields: Fields) -> None:
    """Write the geometry and, where there are any, colors of vertices and faces."""
    pos, face = three_axes(fields["pos"]), fields.get("face", np.empty((0, 3), np.int64))
    colors, face_colors = _color_ends(fields.get("x")), _color_ends(fields.get("face_color"))
    lines = ["OFF" if colors is None else "COFF", f"{len(pos)} {len(face)} 0"]
    lines += _joined(text_rows(pos), colors)
    lines += [f"3 {row}" for row in _joined(text_rows(face), face_colors)]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def _color_ends(x: Array | None) -> list[str] | None:
    """Colors as 0 to 255 and opaque, as programs expect them; ``None`` where ``x`` has none."""
    colors = None if x is None else byte_colors(x)
    if x is None or colors is None:
        return None
    if not np.array_equal(unit_colors(colors), x):
        colors = x.astype(np.float64) * 255
    if colors.max() <= 2:  # so dark that it would be read as a scale from 0 to 1
        return [f" {row} 1" for row in text_rows(x)]
    return [f" {row} 255" for row in text_rows(colors)]


def _joined(rows: Iterator[str], ends: list[str] | None) -> Iterator[str]:
    return rows if ends is None else map("".join, zip(rows, ends, strict=True))
