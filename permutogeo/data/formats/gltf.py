"""glTF files, binary (GLB) and JSON, through trimesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data import convert
from permutogeo.data.fields import Fields, byte_colors


def read_gltf(path: Path) -> Fields:
    """Read all meshes of a glTF file as one; buffers beside a ``.gltf`` are found."""
    import trimesh

    scene: Any = trimesh.load_scene(path, process=False)
    parts = list(scene.geometry.values())
    nodes = [scene.graph[name] for name in scene.graph.nodes_geometry]
    if len(parts) == len(nodes) == 1 and np.array_equal(nodes[0][0], np.eye(4)):
        return convert.from_trimesh(parts[0])  # joining loses normals
    return convert.from_trimesh(scene.to_mesh())


def write_gltf(path: Path, fields: Fields) -> None:
    """Write a mesh with normals, colors and texture coordinates, as one self-contained file."""
    import trimesh

    held = {k: v for k, v in fields.items() if k in ("pos", "face", "x", "normal", "uv")}
    if "x" in held and byte_colors(held["x"]) is None:  # glTF has 8-bit colors
        del held["x"]
    mesh = convert.to_trimesh(held)
    mesh.vertex_attributes.clear()
    has_normals = "normal" in held
    if path.suffix.lower() == ".glb":
        path.write_bytes(mesh.export(file_type="glb", include_normals=has_normals))
        return
    files = trimesh.exchange.gltf.export_gltf(
        trimesh.Scene(mesh), include_normals=has_normals, embed_buffers=True
    )
    path.write_bytes(files["model.gltf"])
