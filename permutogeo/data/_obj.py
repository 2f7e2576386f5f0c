"""Wavefront OBJ files: geometry, vertex colors, normals, texture coordinates, materials and groups.

Read here because trimesh drops unreferenced vertices and reorders the others, which loses the
correspondence with labels and with the clean half of a noisy pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permutogeo.data._fields import Array, Fields, byte_colors, text_colors, text_rows, three_axes
from permutogeo.data._polygons import fan

# Lines that say what the faces after them belong to: ``face_material`` counts in
# ``material_names``, and so on.
GROUPS = {"usemtl": "material", "o": "object", "g": "group", "s": "smoothing"}
LIBRARY = "material_library"
WORDS = (LIBRARY, *(f"{name}_names" for name in GROUPS.values()))


class _Lines:
    """What an OBJ file holds, by kind."""

    def __init__(self, text: str):
        self.rows: dict[str, list[str]] = {"v": [], "vt": [], "vn": []}
        self.faces: list[list[str]] = []
        self.counts: list[tuple[int, int, int]] = []  # of each kind, seen before a face
        self.library: list[str] = []
        self.names: dict[str, dict[str, int]] = {head: {} for head in GROUPS}
        self.begins: dict[str, list[tuple[int, int]]] = {head: [(0, -1)] for head in GROUPS}
        v, vt, vn = self.rows.values()
        for line in text.splitlines():
            head, tail, *_ = [*line.partition("#")[0].split(None, 1), "", ""]
            if head in self.rows:
                self.rows[head].append(tail)
            elif head == "f":
                self.faces.append(tail.split())
                self.counts.append((len(v), len(vt), len(vn)))
            elif head in GROUPS:
                names = self.names[head]
                number = names.setdefault(tail.strip(), len(names))
                self.begins[head].append((len(self.faces), number))
            elif head == "mtllib":
                self.library.append(tail.strip())

    def words(self, owner: Array) -> Fields:
        """Materials and groups of triangles, which come from the faces ``owner``."""
        fields: Fields = {}
        if self.library:
            fields[LIBRARY] = np.array(self.library, dtype=np.str_)
        for head, name in GROUPS.items():
            if self.names[head]:
                start, number = np.array(self.begins[head]).T
                face = np.repeat(number, np.diff(start, append=len(self.faces)))
                fields[f"face_{name}"] = face[owner]
                fields[f"{name}_names"] = np.array(list(self.names[head]), dtype=np.str_)
        return fields


def _numbers(rows: list[str], width: int, what: str) -> Array:
    split = [row.split() for row in rows]
    bad = next((i for i, row in enumerate(split) if len(row) < width), None)
    if bad is not None:
        raise ValueError(f"'{what}' number {bad + 1} has {len(split[bad])} of {width} numbers")
    return np.array([row[:width] for row in split], dtype=np.float64).reshape(-1, width)


def _resolve(index: Array, seen: Array) -> Array:
    """OBJ indices count from 1, or backwards from the last one seen; 0 is none of both."""
    return np.where(index > 0, index - 1, np.where(index < 0, seen + index, -1))


def _looked_up(rows: list[str], width: int, what: str, index: Array, seen: Array) -> Array:
    """The numbers that corners refer to, ``[K, width]``; 0 where they refer to none."""
    values, at = _numbers(rows, width, what), _resolve(index, seen)
    bad = (index != 0) & ((at < 0) | (at >= len(values)))
    if bad.any():
        raise ValueError(f"a face refers to '{what}' {index[bad][0]}, there are {len(values)}")
    return np.where((index != 0)[:, None], values[at], 0.0)


def _corners(faces: list[list[str]]) -> Array:
    """(v, vt, vn) of all corners of all faces ``[K, 3]``, with 0 for what is absent."""
    words = [word for face in faces for word in face]
    slashes = words[0].count("/")
    holes = "//" in words[0]
    strange = next((word for word in words if word.count("/") > 2), None)
    if strange is not None:
        raise ValueError(f"a face has the corner '{strange}'")
    if any(word.count("/") != slashes or ("//" in word) != holes for word in words):
        parts = [[*word.split("/"), "", ""][:3] for word in words]  # faces of several kinds
        return np.array([[int(part or 0) for part in row] for row in parts])
    width = slashes + 1 - holes
    numbers = np.array(" ".join(words).replace("/", " ").split(), dtype=np.int64)
    out = np.zeros((len(words), 3), np.int64)
    out[:, [0, 2] if holes else slice(width)] = numbers.reshape(len(words), width)
    return out


def _per_vertex(vertex: Array, values: Array, count: int) -> Array | None:
    """``values`` given at corners, as an array of vertices, if all corners of a vertex agree."""
    if (vertex < 0).any() or (vertex >= count).any():
        return None
    out = np.zeros((count, values.shape[1]))
    out[vertex] = values
    return out if np.array_equal(out[vertex], values) else None


def read_obj(path: Path) -> Fields:
    """Read vertices in the order of the file, and faces as triangles."""
    text = path.read_text(encoding="utf-8", errors="strict").replace("\\\n", " ")
    lines = _Lines(text)
    rows = lines.rows["v"]
    if not rows:
        raise ValueError("no 'v' lines")
    fields: Fields = {"pos": _numbers(rows, 3, "v")}
    if min(len(row.split()) for row in rows) >= 6:
        fields["x"] = text_colors(_numbers(rows, 6, "v")[:, 3:])
    if lines.faces:
        fields.update(_faces(lines))
    return fields


def _faces(lines: _Lines) -> Fields:
    sizes = np.array([len(face) for face in lines.faces])
    triangles, owner = fan(sizes)
    corner, seen = _corners(lines.faces), np.repeat(np.array(lines.counts), sizes, axis=0)
    count = len(lines.rows["v"])
    vertex = _resolve(corner[:, 0], seen[:, 0])
    fields = {"face": vertex[triangles]}
    if lines.rows["vt"] and (corner[:, 1] != 0).any():
        uv = _looked_up(lines.rows["vt"], 2, "vt", corner[:, 1], seen[:, 1])
        at_vertex = _per_vertex(vertex, uv, count) if (corner[:, 1] != 0).all() else None
        if at_vertex is None:  # a seam: some vertex has two places on the texture
            fields["face_uv"] = uv[triangles]
        else:
            fields["uv"] = at_vertex
    if lines.rows["vn"] and (corner[:, 2] != 0).all():
        normal = _looked_up(lines.rows["vn"], 3, "vn", corner[:, 2], seen[:, 2])
        at_vertex = _per_vertex(vertex, normal, count)
        if at_vertex is not None:  # flat shading has no normal of a vertex
            fields["normal"] = at_vertex
    return {**fields, **lines.words(owner)}


def write_obj(path: Path, fields: Fields) -> None:
    """Write geometry, colors ``x [N, 3]``, ``normal``, ``uv`` or ``face_uv``, materials, groups."""
    pos, x = three_axes(fields["pos"]), fields.get("x")
    if x is not None and byte_colors(x) is not None:
        pos = np.concatenate([pos, x.astype(pos.dtype)], axis=1)
    lines = [f"mtllib {name}" for name in fields.get(LIBRARY, ())]
    lines += [f"v {row}" for row in text_rows(pos)]
    uv = fields["face_uv"].reshape(-1, 2) if "face_uv" in fields else fields.get("uv")
    if uv is not None:
        lines += [f"vt {row}" for row in text_rows(uv)]
    if "normal" in fields:
        lines += [f"vn {row}" for row in text_rows(fields["normal"])]
    if "face" in fields:
        lines += _face_lines(fields)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _face_lines(fields: Fields) -> Iterator[str]:
    """Faces, each after the lines that say what they belong to where that is new."""
    face = (fields["face"] + 1).tolist()
    texture = face if "uv" in fields else None
    if "face_uv" in fields:
        texture = np.arange(1, 3 * len(face) + 1).reshape(-1, 3).tolist()
    groups, none = _group_lines(fields), ("", "", "")
    for i, row in enumerate(face):
        yield from groups.get(i, ())
        parts = zip(
            row,
            none if texture is None else texture[i],
            row if "normal" in fields else none,
            strict=True,
        )
        yield "f " + " ".join(f"{a}/{b}/{c}".rstrip("/") for a, b, c in parts)


def _group_lines(fields: Fields) -> dict[int, list[str]]:
    """The lines that belong before each face."""
    lines: dict[int, list[str]] = {}
    for head, name in GROUPS.items():
        number, names = fields.get(f"face_{name}"), fields.get(f"{name}_names")
        if number is None or names is None or number.ndim != 1 or number.dtype.kind not in "iu":
            continue
        begins = np.flatnonzero(np.diff(number, prepend=-1))
        for i, which in zip(begins.tolist(), number[begins].tolist(), strict=True):
            if 0 <= which < len(names):
                lines.setdefault(i, []).append(f"{head} {names[which]}".rstrip())
    return lines
