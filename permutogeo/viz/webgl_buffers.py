"""Quantized, compressed vertex and index buffers for the WebGL page."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np

from permutogeo.typing import Array
from permutogeo.viz.colors import error_ramp
from permutogeo.viz.scene import Scene
from permutogeo.viz.shapes import Shape
from permutogeo.viz.web_page import without_folders

JAVASCRIPT_TYPES = {
    np.dtype(np.uint8): "Uint8Array",
    np.dtype(np.int8): "Int8Array",
    np.dtype(np.uint16): "Uint16Array",
    np.dtype(np.uint32): "Uint32Array",
}


class BufferPack:
    """Named arrays concatenated into one buffer, with their offsets."""

    def __init__(self) -> None:
        self.layout: dict[str, dict[str, Any]] = {}
        self._names: dict[int, str] = {}
        self._parts: list[Array] = []
        self._size = 0

    def add(self, name: str, array: Array, same_as: Array | None = None) -> str:
        """Append an array and return its name; an array stored for ``same_as`` is reused."""
        if same_as is not None and id(same_as) in self._names:
            return self._names[id(same_as)]
        if same_as is not None:
            self._names[id(same_as)] = name
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        kind = JAVASCRIPT_TYPES[array.dtype]
        self.layout[name] = {"type": kind, "offset": self._size, "length": array.size}
        padding = np.zeros(-little.nbytes % 4, np.uint8)  # typed arrays must be aligned
        self._parts += [little.reshape(-1).view(np.uint8), padding]
        self._size += little.nbytes + len(padding)
        return name

    def text(self) -> str:
        """Return the buffer, gzipped, in base64."""
        data = b"".join(part.tobytes() for part in self._parts)
        return base64.b64encode(gzip.compress(data, mtime=0, compresslevel=6)).decode()


def _add_shape(pack: BufferPack, number: int, shape: Shape, error_step: float) -> dict[str, Any]:
    """Quantize positions and errors to 16 bits, normals to 8; return the buffer names."""
    cube = np.clip((shape.pos + 1.0) / 2.0, 0.0, 1.0)
    position = np.rint(65535 * cube).astype(np.uint16)
    names: dict[str, Any] = {"position": pack.add(f"position{number}", position)}
    if shape.face is not None:
        small = len(shape.pos) <= 65536
        face = shape.face.astype(np.uint16 if small else np.uint32)
        names["face"] = pack.add(f"face{number}", face, same_as=shape.face)
    if shape.normal is not None:
        normal = np.rint(127 * shape.normal).astype(np.int8)
        names["normal"] = pack.add(f"normal{number}", normal)
        names["diameter"] = 2 * shape.radius
    if shape.error is not None:
        level = np.rint(shape.error / error_step).astype(np.uint16)
        names["error"] = pack.add(f"error{number}", level)
    if shape.color is not None:
        names["color"] = pack.add(f"color{number}", shape.color)
    return {"diameter": 0.0, **names}


def error_step(scene: Scene) -> float:
    """Return the error of one quantization step, in the unit of the scene."""
    return scene.max_error / 65535


def pack_scene(scene: Scene) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], str]:
    """Return the buffer names of each shape, the buffer layout, and the buffers in base64."""
    pack = BufferPack()
    pack.add("ramp", error_ramp())
    meshes = [
        _add_shape(pack, number, shape, error_step(scene))
        for number, shape in enumerate(scene.shapes)
    ]
    for index, names in enumerate(meshes):
        names["name"] = without_folders(scene.shapes[index].name)
        if scene.is_blendable(index):
            names["origin"] = meshes[0]["position"]
    return meshes, pack.layout, pack.text()
