"""STL files: text is read by trimesh, all else here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data._fields import Array, Fields

RECORD = np.dtype([("normal", "<f4", (3,)), ("corner", "<f4", (3, 3)), ("attribute", "<u2")])


def _binary(content: bytes) -> Array | None:
    """The records of a binary file, or ``None`` for text; what it claims is what it holds."""
    claimed = int(np.frombuffer(content, "<u4", 1, 80)[0]) if len(content) >= 84 else 0
    if len(content) == 84 + claimed * RECORD.itemsize:
        return np.frombuffer(content, RECORD, claimed, 84)
    if content.lstrip()[:5].lower() != b"solid":
        held = max(len(content) - 84, 0) // RECORD.itemsize
        raise ValueError(f"the header claims {claimed} triangles, there are {held}")
    text = content.lower()
    begun, ended = text.count(b"facet normal"), text.count(b"endfacet")
    if b"endsolid" not in text or begun != ended:
        raise ValueError(f"{begun} facets begin, {ended} end, and 'endsolid' has to follow")
    return None


def _text_corners(path: Path) -> Array:
    import trimesh

    mesh: Any = trimesh.load(path, file_type="stl", force="mesh", process=False)
    return np.asarray(mesh.triangles).reshape(-1, 3)


def read_stl(path: Path) -> Fields:
    """Read the triangles; corners at exactly the same place become one vertex."""
    records = _binary(path.read_bytes())
    corners = _text_corners(path) if records is None else records["corner"].reshape(-1, 3)
    if len(corners) == 0:
        raise ValueError("no triangles")
    _, first, inverse = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))  # vertices in the order of the file
    fields = {"pos": corners[first[order]], "face": rank[inverse.reshape(-1)].reshape(-1, 3)}
    if records is not None and records["attribute"].any():  # colors, in one dialect or another
        fields["face_attribute"] = records["attribute"]
    return fields


def write_stl(path: Path, fields: Fields) -> None:
    """Write the geometry, binary, and the two bytes ``face_attribute`` where there are any."""
    corner = fields["pos"][fields["face"]].astype(np.float64)
    cross = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(cross, axis=1, keepdims=True)
    rows = np.zeros(len(corner), RECORD)
    rows["normal"] = cross / np.where(length > 0, length, 1.0)
    rows["corner"] = corner
    attribute = fields.get("face_attribute")
    if attribute is not None and attribute.ndim == 1 and attribute.dtype.kind in "iu":
        rows["attribute"] = attribute
    header = b"binary STL".ljust(80) + np.array(len(rows), "<u4").tobytes()
    path.write_bytes(header + rows.tobytes())
