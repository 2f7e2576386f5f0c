"""Geometry for a page: small integers, compressed, as text."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.viz._panels import Panel
from permutogeo.viz._scene import Scene
from permutogeo.viz.colors import error_ramp

SCRIPT_TYPES = {
    np.dtype(np.uint8): "Uint8Array",
    np.dtype(np.int8): "Int8Array",
    np.dtype(np.uint16): "Uint16Array",
    np.dtype(np.uint32): "Uint32Array",
}


class Pack:
    """Named arrays one after the other, and where each of them lies."""

    def __init__(self) -> None:
        self.where: dict[str, dict[str, Any]] = {}
        self._names: dict[int, str] = {}
        self._parts: list[Array] = []
        self._size = 0

    def add(self, name: str, array: Array, same_as: Array | None = None) -> str:
        """Store an array, once for all that stand for the same; returns its name."""
        if same_as is not None and id(same_as) in self._names:
            return self._names[id(same_as)]
        if same_as is not None:
            self._names[id(same_as)] = name
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        kind = SCRIPT_TYPES[array.dtype]
        self.where[name] = {"type": kind, "offset": self._size, "length": array.size}
        padding = np.zeros(-little.nbytes % 4, np.uint8)  # arrays start at their own alignment
        self._parts += [little.reshape(-1).view(np.uint8), padding]
        self._size += little.nbytes + len(padding)
        return name

    def text(self) -> str:
        """All arrays, gzip in base64."""
        data = b"".join(part.tobytes() for part in self._parts)
        return base64.b64encode(gzip.compress(data, mtime=0, compresslevel=6)).decode()


def _add_panel(pack: Pack, number: int, panel: Panel, scale_end: float) -> dict[str, Any]:
    """Positions in 16 bits, errors and normals in 8."""
    cube = np.clip((panel.pos + 1.0) / 2.0, 0.0, 1.0)
    position = np.rint(65535 * cube).astype(np.uint16)
    names: dict[str, Any] = {"position": pack.add(f"position{number}", position)}
    if panel.face is not None:
        small = len(panel.pos) <= 65536
        face = panel.face.astype(np.uint16 if small else np.uint32)
        names["face"] = pack.add(f"face{number}", face, same_as=panel.face)
    if panel.normal is not None:
        normal = np.rint(127 * panel.normal).astype(np.int8)
        names["normal"] = pack.add(f"normal{number}", normal)
        names["diameter"] = 2 * panel.radius
    if panel.error is not None:
        level = np.rint(255 * np.minimum(panel.error / scale_end, 1.0)).astype(np.uint8)
        names["error"] = pack.add(f"error{number}", level)
    if panel.color is not None:
        names["color"] = pack.add(f"color{number}", panel.color)
    return {"diameter": 0.0, **names}


def pack_scene(scene: Scene) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], str]:
    """For each panel the names of its arrays, where each array lies, and the arrays as text."""
    pack = Pack()
    pack.add("ramp", error_ramp())
    meshes = [
        _add_panel(pack, number, panel, scene.scale_end)
        for number, panel in enumerate(scene.panels)
    ]
    return meshes, pack.where, pack.text()
