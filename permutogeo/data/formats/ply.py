"""PLY files with all their properties.

Not read through a library: Open3D and trimesh drop properties of vertices and faces that they have
no name for, Open3D ignores surplus lines, and trimesh returns fewer faces than the header claims
where lines are missing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permutogeo.data.fields import Fields, attribute_name
from permutogeo.data.formats.columns import from_columns, to_columns
from permutogeo.data.formats.ply_elements import TYPES, Table, read_elements
from permutogeo.data.formats.polygons import POLYGON_COUNT, fan_corners, flatten, triangulate
from permutogeo.typing import Array

# Comment by which programs name the image of the texture coordinates.
_TEXTURE = "TextureFile "
STRING_ATTRIBUTES = ("texture_files",)
_STANDARD = ("char", "uchar", "short", "ushort", "int", "uint", "float", "double")
_TYPE_NAMES = {TYPES[name]: name for name in _STANDARD}


def _scalars(table: Table) -> dict[str, Array]:
    return {k: v for k, v in table.items() if isinstance(v, np.ndarray) and v.ndim == 1}


def read_ply(path: Path) -> Fields:
    """Read the vertices of a PLY file and, if present, its faces as triangles."""
    tables, comments = read_elements(path)
    vertex = tables.get("vertex", {})
    fields = from_columns(_scalars(vertex))
    for name, value in vertex.items():
        if isinstance(value, np.ndarray) and value.ndim == 2:  # lists of one length, as trimesh has
            fields[attribute_name(name)] = value
    textures = [line.removeprefix(_TEXTURE) for line in comments if line.startswith(_TEXTURE)]
    if textures:
        fields["texture_files"] = np.array(textures, dtype=np.str_)
    fields.update(_faces(dict(tables.get("face", {}))))
    return fields


def _faces(table: Table) -> Fields:
    polygons = table.pop("vertex_indices", table.pop("vertex_index", None))
    if polygons is None or len(polygons) == 0:
        return {}
    triangles, polygon = triangulate(polygons)
    fields = {"face": triangles, POLYGON_COUNT: np.array([len(polygons)])}
    uv = _corner_uv(table.pop("texcoord", None), flatten(polygons)[0])
    if uv is not None:
        fields["face_uv"] = uv
    # from_columns needs positions, which faces do not have.
    zero = np.zeros(len(polygons), np.float32)
    grouped = from_columns({"x": zero, "y": zero, "z": zero, **_scalars(table)})
    for name, value in grouped.items():
        if name != "pos":
            fields[f"face_{'color' if name == 'x' else name}"] = value[polygon]
    return fields


def _corner_uv(rows: Array | list[Array] | None, sizes: Array) -> Array | None:
    """Return texture coordinates of the triangles ``[F, 3, 2]``; 0 for faces without any."""
    if rows is None:
        return None
    lengths, flat = flatten(rows)
    if not ((lengths == 2 * sizes) | (lengths == 0)).all() or len(flat) == 0:
        return None
    uv = np.zeros((int(sizes.sum()), 2), flat.dtype.newbyteorder("="))
    uv[np.repeat(lengths > 0, sizes)] = flat.reshape(-1, 2)
    return uv[fan_corners(sizes)[0]]


def _records(columns: dict[str, Array]) -> Array:
    dtype = [(name, value.dtype.newbyteorder("<")) for name, value in columns.items()]
    rows = np.empty(len(next(iter(columns.values()))), dtype)
    for name, value in columns.items():
        rows[name] = value
    return rows


def _property_lines(rows: Array) -> list[str]:
    names = rows.dtype.names or ()
    return [f"property {_TYPE_NAMES[rows.dtype[name].str[1:]]} {name}" for name in names]


def _face_rows(fields: Fields) -> tuple[Array, list[str]]:
    """Return faces as records (3, a, b, c, attributes …) and their property lines."""
    face = fields["face"].astype(np.int32)
    others = {k[5:]: v for k, v in fields.items() if k.startswith("face_") and k != "face_uv"}
    if "color" in others:
        others["x"] = others.pop("color")
    extra = to_columns({"pos": np.zeros((len(face), 3), np.float32), **others})
    extra = {name: value for name, value in extra.items() if name not in ("x", "y", "z")}
    dtype: list[tuple] = [("count", "u1"), ("corner", "<i4", (3,))]
    header = ["property list uchar int vertex_indices"]
    if "face_uv" in fields:
        dtype += [("six", "u1"), ("texcoord", "<f4", (6,))]
        header.append("property list uchar float texcoord")
    dtype += [(name, value.dtype.newbyteorder("<")) for name, value in extra.items()]
    rows = np.empty(len(face), dtype)
    rows["count"], rows["corner"] = 3, face
    if "face_uv" in fields:
        rows["six"], rows["texcoord"] = 6, fields["face_uv"].reshape(len(face), 6)
    for name, value in extra.items():
        rows[name] = value
        header.append(f"property {_TYPE_NAMES[rows.dtype[name].str[1:]]} {name}")
    return rows, header


def write_ply(path: Path, fields: Fields) -> None:
    """Write points and, if present, faces as binary PLY."""
    points = {
        k: v for k, v in fields.items() if not k.startswith("face") and k not in STRING_ATTRIBUTES
    }
    rows = _records(to_columns(points))
    header = ["ply", "format binary_little_endian 1.0"]
    header += [f"comment {_TEXTURE}{name}" for name in fields.get("texture_files", ())]
    header += [f"element vertex {len(rows)}", *_property_lines(rows)]
    parts = [rows.tobytes()]
    if "face" in fields:
        faces, properties = _face_rows(fields)
        header += [f"element face {len(faces)}", *properties]
        parts.append(faces.tobytes())
    header.append("end_header\n")
    path.write_bytes("\n".join(header).encode("utf-8") + b"".join(parts))
