"""STL files, read through trimesh; the counts of the file are checked before and after.

The writer is ours because trimesh does not write the two attribute bytes of a triangle.
"""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data.fields import Fields, unique_rows
from permutogeo.data.formats.text import skip_mark

# trimesh logs damaged normals, which are not read; without a handler that goes to standard error.
logging.getLogger("trimesh").addHandler(logging.NullHandler())

_RECORD = np.dtype([("normal", "<f4", (3,)), ("corner", "<f4", (3, 3)), ("attribute", "<u2")])
_HEADER_BYTES = 84
_VERTEX_LINE = re.compile(rb"^\s*vertex(?:[ \t]+\S+){3}\s*$", re.MULTILINE | re.IGNORECASE)


def read_stl(path: Path) -> Fields:
    """Read the triangles; corners at exactly the same position become one vertex."""
    import trimesh

    content = path.read_bytes()
    if not _is_binary(content):
        content = skip_mark(content)
    count, is_text = _count_triangles(content)
    if count == 0:
        raise ValueError("no triangles")
    mesh: Any = trimesh.load_mesh(io.BytesIO(content), file_type="stl", process=False)
    if len(mesh.faces) != count:
        raise ValueError(f"the file has {count} triangles, {len(mesh.faces)} could be read")
    corners = np.asarray(mesh.triangles).reshape(-1, 3)
    if not is_text:
        corners = corners.astype(np.float32)  # trimesh converts to float64
    pos, index = unique_rows(corners)
    fields = {"pos": pos, "face": index.reshape(-1, 3)}
    attribute = mesh.face_attributes.get("stl")
    if attribute is not None and np.any(attribute):  # colors, in one of several dialects
        fields["face_attribute"] = np.asarray(attribute)
    return fields


def _is_binary(content: bytes) -> bool:
    """Whether the size is that of a binary file with the number of triangles in its header."""
    size = len(content) - _HEADER_BYTES
    claimed = int(np.frombuffer(content, "<u4", 1, 80)[0]) if size >= 0 else 0
    return size == claimed * _RECORD.itemsize


def _count_triangles(content: bytes) -> tuple[int, bool]:
    """Return the number of triangles and whether the file is text; raises if counts disagree."""
    size = len(content) - _HEADER_BYTES
    claimed = int(np.frombuffer(content, "<u4", 1, 80)[0]) if size >= 0 else 0
    if _is_binary(content):
        return claimed, False
    if content.lstrip()[:5].lower() != b"solid":
        held = max(size, 0) // _RECORD.itemsize
        raise ValueError(f"the header claims {claimed} triangles, there are {held}")
    text = content.lower()
    begun, ended = text.count(b"facet normal"), text.count(b"endfacet")
    if b"endsolid" not in text or begun != ended:
        raise ValueError(f"{begun} facets begin, {ended} end, and 'endsolid' has to follow")
    vertices = len(_VERTEX_LINE.findall(content))
    if vertices != 3 * begun:
        raise ValueError(f"{begun} facets have {vertices} vertices of three numbers")
    return begun, True


def write_stl(path: Path, fields: Fields) -> None:
    """Write the geometry and, if present, ``face_attribute`` in the attribute bytes, binary."""
    corner = fields["pos"][fields["face"]].astype(np.float64)
    cross = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(cross, axis=1, keepdims=True)
    rows = np.zeros(len(corner), _RECORD)
    rows["normal"] = cross / np.where(length > 0, length, 1.0)
    rows["corner"] = corner
    attribute = fields.get("face_attribute")
    if attribute is not None and attribute.ndim == 1 and attribute.dtype.kind in "iu":
        rows["attribute"] = attribute
    header = b"binary STL".ljust(80) + np.array(len(rows), "<u4").tobytes()
    path.write_bytes(header + rows.tobytes())
