"""Wavefront OBJ files: geometry, vertex colors, normals and texture coordinates.

Read here because trimesh drops unreferenced vertices and reorders the others, which loses the
correspondence with labels and with the clean half of a noisy pair.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permutogeo.data._fields import Array, Fields, byte_colors, text_colors
from permutogeo.data._polygons import triangulate


def _numbers(rows: list[str], width: int, what: str) -> Array:
    split = [row.split() for row in rows]
    bad = next((i for i, row in enumerate(split) if len(row) < width), None)
    if bad is not None:
        raise ValueError(f"'{what}' number {bad + 1} has {len(split[bad])} of {width} numbers")
    return np.array([row[:width] for row in split], dtype=np.float64).reshape(-1, width)


def _resolve(index: Array, seen: Array, what: str, total: int) -> Array:
    """OBJ indices count from 1, or backwards from the last one seen; 0 is none of both."""
    out = np.where(index > 0, index - 1, seen + index)
    if (index == 0).any() or (out < 0).any() or (out >= total).any():
        bad = int(index[(index == 0) | (out < 0) | (out >= total)][0])
        raise ValueError(f"a face refers to '{what}' {bad}, there are {total}")
    return out


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


def _per_vertex(target: Array, source: Array, values: Array, count: int) -> Array | None:
    """``values`` given at corners, as an array of vertices, if all corners of a vertex agree."""
    out = np.zeros((count, values.shape[1]))
    out[target] = values[source]
    return out if np.array_equal(out[target], values[source]) else None


def read_obj(path: Path) -> Fields:
    """Read vertices in the order of the file, and faces as triangles."""
    rows: dict[str, list[str]] = {"v": [], "vt": [], "vn": []}
    faces: list[list[str]] = []
    counts: list[tuple[int, int, int]] = []  # how many of each were seen before a face
    text = path.read_text(encoding="utf-8", errors="strict").replace("\\\n", " ")
    for line in text.splitlines():
        head, tail, *_ = [*line.partition("#")[0].split(None, 1), "", ""]
        if head in rows:
            rows[head].append(tail)
        elif head == "f":
            faces.append(tail.split())
            counts.append((len(rows["v"]), len(rows["vt"]), len(rows["vn"])))
    if not rows["v"]:
        raise ValueError("no 'v' lines")
    fields: Fields = {"pos": _numbers(rows["v"], 3, "v")}
    if min(len(row.split()) for row in rows["v"]) >= 6:
        fields["x"] = text_colors(_numbers(rows["v"], 6, "v")[:, 3:])
    if not faces:
        return fields
    sizes = np.array([len(face) for face in faces])
    if sizes.min() < 3:
        raise ValueError(f"face {sizes.argmin() + 1} has {sizes.min()} corners")
    corner, seen = _corners(faces), np.repeat(np.array(counts), sizes, axis=0)
    vertex = _resolve(corner[:, 0], seen[:, 0], "v", len(rows["v"]))
    order = np.arange(len(corner))
    same = (sizes == sizes[0]).all()
    polygons = order.reshape(len(sizes), -1) if same else np.split(order, np.cumsum(sizes)[:-1])
    triangles, _ = triangulate(polygons)
    fields["face"] = vertex[triangles]
    if rows["vt"] and (corner[:, 1] != 0).all():
        at = _resolve(corner[:, 1], seen[:, 1], "vt", len(rows["vt"]))
        values = _numbers(rows["vt"], 2, "vt")
        uv = _per_vertex(vertex, at, values, len(rows["v"]))
        if uv is None:  # a seam: some vertex has two places on the texture
            fields["face_uv"] = values[at][triangles]
        else:
            fields["uv"] = uv
    if rows["vn"] and (corner[:, 2] != 0).all():
        at = _resolve(corner[:, 2], seen[:, 2], "vn", len(rows["vn"]))
        normal = _per_vertex(vertex, at, _numbers(rows["vn"], 3, "vn"), len(rows["v"]))
        if normal is not None:  # flat shading has no normal of a vertex
            fields["normal"] = normal
    return fields


def _lines(head: str, values: Array) -> list[str]:
    digits = ".17g" if values.dtype == np.float64 else ".9g"
    return [f"{head} " + " ".join(format(v, digits) for v in row) for row in values.tolist()]


def write_obj(path: Path, fields: Fields) -> None:
    """Write geometry, colors ``x [N, 3]``, ``normal`` and ``uv`` or ``face_uv``."""
    pos, face = fields["pos"], fields["face"] + 1
    x = fields.get("x")
    if x is not None and byte_colors(x) is not None:
        pos = np.concatenate([pos, x.astype(pos.dtype)], axis=1)
    lines = _lines("v", pos)
    texture = face if "uv" in fields else None
    if "face_uv" in fields:
        lines += _lines("vt", fields["face_uv"].reshape(-1, 2))
        texture = np.arange(1, face.size + 1).reshape(-1, 3)
    elif "uv" in fields:
        lines += _lines("vt", fields["uv"])
    if "normal" in fields:
        lines += _lines("vn", fields["normal"])
    for i, row in enumerate(face.tolist()):
        t = texture[i].tolist() if texture is not None else ["", "", ""]
        n = row if "normal" in fields else ["", "", ""]
        words = (f"{a}/{b}/{c}".rstrip("/") for a, b, c in zip(row, t, n, strict=True))
        lines.append("f " + " ".join(words))
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
