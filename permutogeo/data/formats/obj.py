"""Wavefront OBJ files: geometry, vertex colors, normals, texture coordinates, materials, groups.

Not read through a library: trimesh drops unreferenced vertices and duplicates those at texture
seams, which loses the correspondence with labels and with the clean half of a noisy pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permutogeo.data.fields import Fields, byte_colors, pad_to_3d, unique_rows
from permutogeo.data.formats.polygons import POLYGON_COUNT, fan_corners
from permutogeo.data.formats.text import (
    format_rows,
    parse_floats,
    parse_integers,
    read_text,
    text_colors,
)
from permutogeo.typing import Array

# Statements that assign the faces after them to a group; ``face_material`` holds indices into
# ``material_names``, and so on.
GROUPS = {"usemtl": "material", "o": "object", "g": "group", "s": "smoothing"}
_LIBRARY = "material_library"
STRING_ATTRIBUTES = (_LIBRARY, *(f"{name}_names" for name in GROUPS.values()))


class _Statements:
    """The statements of an OBJ file, sorted by keyword but not yet parsed."""

    def __init__(self, text: str):
        self.rows: dict[str, list[str]] = {"v": [], "vt": [], "vn": []}
        self.faces: list[list[str]] = []
        self.counts: list[tuple[int, int, int]] = []  # numbers of v, vt, vn before each face
        self.libraries: list[str] = []
        self.names: dict[str, dict[str, int]] = {key: {} for key in GROUPS}
        self.begins: dict[str, list[tuple[int, int]]] = {key: [(0, -1)] for key in GROUPS}
        v, vt, vn = self.rows.values()
        for line in text.splitlines():
            key, tail, *_ = [*line.partition("#")[0].split(None, 1), "", ""]
            if key in self.rows:
                self.rows[key].append(tail)
            elif key == "f":
                self.faces.append(tail.split())
                self.counts.append((len(v), len(vt), len(vn)))
            elif key in GROUPS:
                names = self.names[key]
                number = names.setdefault(tail.strip(), len(names))
                self.begins[key].append((len(self.faces), number))
            elif key == "mtllib":
                self.libraries.append(tail.strip())

    def groups(self, polygon: Array) -> Fields:
        """Return materials and groups of triangles, given the polygon of each triangle."""
        fields: Fields = {}
        if self.libraries:
            fields[_LIBRARY] = np.array(self.libraries, dtype=np.str_)
        for key, name in GROUPS.items():
            if self.names[key]:
                start, number = np.array(self.begins[key]).T
                face = np.repeat(number, np.diff(start, append=len(self.faces)))
                fields[f"face_{name}"] = face[polygon]
                fields[f"{name}_names"] = np.array(list(self.names[key]), dtype=np.str_)
        return fields


def read_obj(path: Path) -> Fields:
    """Read vertices in the order of the file; polygons become triangles."""
    text = read_text(path).replace("\\\n", " ")
    statements = _Statements(text)
    rows = statements.rows["v"]
    if not rows:
        raise ValueError("no 'v' lines")
    fields: Fields = {"pos": _numbers(rows, 3, "v")}
    if min(len(row.split()) for row in rows) >= 6:
        fields["x"] = text_colors(_numbers(rows, 6, "v")[:, 3:])
    if statements.faces:
        fields.update(_faces(statements))
    return fields


def _numbers(rows: list[str], width: int, key: str) -> Array:
    """Parse the first ``width`` numbers of each row."""
    split = [row.split() for row in rows]
    bad = next((i for i, row in enumerate(split) if len(row) < width), None)
    if bad is not None:
        raise ValueError(f"'{key}' number {bad + 1} has {len(split[bad])} of {width} numbers")
    return parse_floats([row[:width] for row in split], width)


def _faces(statements: _Statements) -> Fields:
    sizes = np.array([len(face) for face in statements.faces])
    triangles, polygon = fan_corners(sizes)
    corner = _parse_corners(statements.faces)
    seen = np.repeat(np.array(statements.counts), sizes, axis=0)
    count = len(statements.rows["v"])
    vertex = _zero_based(corner[:, 0], seen[:, 0])
    fields = {"face": vertex[triangles], POLYGON_COUNT: np.array([len(sizes)])}
    if statements.rows["vt"] and (corner[:, 1] != 0).any():
        uv = _look_up(statements.rows["vt"], 2, "vt", corner[:, 1], seen[:, 1])
        at_vertex = _per_vertex(vertex, uv, count) if (corner[:, 1] != 0).all() else None
        if at_vertex is None:  # a seam: some vertex has several texture coordinates
            fields["face_uv"] = uv[triangles]
        else:
            fields["uv"] = at_vertex
    if statements.rows["vn"] and (corner[:, 2] != 0).all():
        normal = _look_up(statements.rows["vn"], 3, "vn", corner[:, 2], seen[:, 2])
        at_vertex = _per_vertex(vertex, normal, count)
        if at_vertex is not None:  # None for flat shading, where vertices have several normals
            fields["normal"] = at_vertex
    return {**fields, **statements.groups(polygon)}


def _parse_corners(faces: list[list[str]]) -> Array:
    """Return the indices (v, vt, vn) of all corners of all faces ``[K, 3]``; 0 if absent."""
    words = [word for face in faces for word in face]
    slashes = words[0].count("/")
    holes = "//" in words[0]
    invalid = next((word for word in words if word.count("/") > 2), None)
    if invalid is not None:
        raise ValueError(f"a face has the corner '{invalid}'")
    if any(word.count("/") != slashes or ("//" in word) != holes for word in words):
        parts = [[*word.split("/"), "", ""][:3] for word in words]  # mixed notations
        return parse_integers([[part or "0" for part in row] for row in parts])
    width = slashes + 1 - holes
    numbers = parse_integers([" ".join(words).replace("/", " ").split()])
    out = np.zeros((len(words), 3), np.int64)
    out[:, [0, 2] if holes else slice(width)] = numbers.reshape(len(words), width)
    return out


def _zero_based(index: Array, seen: Array) -> Array:
    """Convert OBJ indices, which count from 1, or backwards from the last row if negative.

    The invalid index 0 becomes -1.
    """
    return np.where(index > 0, index - 1, np.where(index < 0, seen + index, -1))


def _look_up(rows: list[str], width: int, key: str, index: Array, seen: Array) -> Array:
    """Return the numbers that corners refer to ``[K, width]``; 0 for corners without an index."""
    values, at = _numbers(rows, width, key), _zero_based(index, seen)
    bad = (index != 0) & ((at < 0) | (at >= len(values)))
    if bad.any():
        raise ValueError(f"a face refers to '{key}' {index[bad][0]}, there are {len(values)}")
    return np.where((index != 0)[:, None], values[at], 0.0)


def _per_vertex(vertex: Array, values: Array, count: int) -> Array | None:
    """Return values of corners as values of vertices; ``None`` if corners of a vertex differ."""
    if (vertex < 0).any() or (vertex >= count).any():
        return None
    out = np.zeros((count, values.shape[1]))
    out[vertex] = values
    return out if np.array_equal(out[vertex], values) else None


def write_obj(path: Path, fields: Fields) -> None:
    """Write geometry, colors ``x [N, 3]``, ``normal``, ``uv`` or ``face_uv``, materials, groups."""
    pos, x = pad_to_3d(fields["pos"]), fields.get("x")
    if x is not None and byte_colors(x) is not None:
        pos = np.concatenate([pos, x.astype(pos.dtype)], axis=1)
    lines = [f"mtllib {name}" for name in fields.get(_LIBRARY, ())]
    lines += [f"v {row}" for row in format_rows(pos)]
    uv, texture = _texture_coordinates(fields)
    if uv is not None:
        lines += [f"vt {row}" for row in format_rows(uv)]
    if "normal" in fields:
        lines += [f"vn {row}" for row in format_rows(fields["normal"])]
    if "face" in fields:
        lines += _face_lines(fields, texture)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _texture_coordinates(fields: Fields) -> tuple[Array | None, Array | None]:
    """Return texture coordinates ``[T, 2]``, each once, and their indices at corners ``[F, 3]``."""
    if "face_uv" in fields:
        uv, index = unique_rows(fields["face_uv"].reshape(-1, 2))
        return uv, index.reshape(-1, 3)
    return fields.get("uv"), fields.get("face") if "uv" in fields else None


def _face_lines(fields: Fields, texture: Array | None) -> Iterator[str]:
    """Yield the faces, each after the group statements that change there."""
    face = (fields["face"] + 1).tolist()
    texture_rows = None if texture is None else (texture + 1).tolist()
    groups, none = _group_lines(fields), ("", "", "")
    for i, row in enumerate(face):
        yield from groups.get(i, ())
        parts = zip(
            row,
            none if texture_rows is None else texture_rows[i],
            row if "normal" in fields else none,
            strict=True,
        )
        yield "f " + " ".join(f"{a}/{b}/{c}".rstrip("/") for a, b, c in parts)


def _group_lines(fields: Fields) -> dict[int, list[str]]:
    """Return the group statements before each face, by the index of the face."""
    lines: dict[int, list[str]] = {}
    for key, name in GROUPS.items():
        number, names = fields.get(f"face_{name}"), fields.get(f"{name}_names")
        if number is None or names is None or number.ndim != 1 or number.dtype.kind not in "iu":
            continue
        begins = np.flatnonzero(np.diff(number, prepend=-1))
        for i, which in zip(begins.tolist(), number[begins].tolist(), strict=True):
            if 0 <= which < len(names):
                lines.setdefault(i, []).append(f"{key} {names[which]}".rstrip())
    return lines
