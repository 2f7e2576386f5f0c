"""STL files: read by trimesh, written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data._fields import Fields

RECORD = np.dtype([("normal", "<f4", (3,)), ("corner", "<f4", (3, 3)), ("attribute", "<u2")])


def _check_size(path: Path) -> None:
    """Compare what the file claims with what it holds."""
    content = path.read_bytes()
    claimed = int(np.frombuffer(content, "<u4", 1, 80)[0]) if len(content) >= 84 else 0
    if len(content) == 84 + claimed * RECORD.itemsize and claimed:
        return
    if content.lstrip()[:5].lower() != b"solid":
        held = max(len(content) - 84, 0) // RECORD.itemsize
        raise ValueError(f"the header claims {claimed} triangles, there are {held}")
    text = content.lower()
    begun, ended = text.count(b"facet normal"), text.count(b"endfacet")
    if b"endsolid" not in text or begun != ended:
        raise ValueError(f"{begun} facets begin, {ended} end, and 'endsolid' has to follow")


def read_stl(path: Path) -> Fields:
    """Read the triangles; corners at exactly the same place become one vertex."""
    import trimesh

    _check_size(path)
    mesh: Any = trimesh.load(path, file_type="stl", force="mesh", process=False)
    corners = np.asarray(mesh.triangles).reshape(-1, 3)
    if len(corners) == 0:
        raise ValueError("no triangles")
    _, first, inverse = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))  # vertices in the order of the file
    return {"pos": corners[first[order]], "face": rank[inverse.reshape(-1)].reshape(-1, 3)}


def write_stl(path: Path, fields: Fields) -> None:
    """Write the geometry alone, binary."""
    corner = fields["pos"][fields["face"]].astype(np.float64)
    cross = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(cross, axis=1, keepdims=True)
    rows = np.zeros(len(corner), RECORD)
    rows["normal"] = cross / np.where(length > 0, length, 1.0)
    rows["corner"] = corner
    header = b"binary STL".ljust(80) + np.array(len(rows), "<u4").tobytes()
    path.write_bytes(header + rows.tobytes())
