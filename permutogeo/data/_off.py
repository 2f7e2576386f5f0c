"""OFF files, with their counts checked: trimesh reads on where the header is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from permutogeo.data._fields import Array, Fields, text_colors
from permutogeo.data._polygons import triangulate


def read_off(path: Path) -> Fields:
    """Read ``OFF`` and ``COFF``; faces become triangles, colors of faces are left out."""
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
        fields["face"], _ = triangulate(_polygons(rows[count:]))
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
    """Write the geometry alone."""
    pos, face = fields["pos"], fields["face"]
    digits = ".17g" if pos.dtype == np.float64 else ".9g"
    lines = ["OFF", f"{len(pos)} {len(face)} 0"]
    lines += [" ".join(format(v, digits) for v in row) for row in pos.tolist()]
    lines += [f"3 {a} {b} {c}" for a, b, c in face.tolist()]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
