"""Conversion between fields and the geometry objects of Open3D and trimesh."""

from __future__ import annotations

from typing import Any

import numpy as np

from permutogeo.data.fields import (
    Fields,
    attribute_name,
    byte_alpha,
    byte_colors,
    native_copy,
    split_alpha,
    unit_colors,
)
from permutogeo.data.open3d_loader import load_open3d
from permutogeo.typing import Array

# Attribute names of Open3D's tensor geometry, and ours.
_POINT_NAMES = {"positions": "pos", "normals": "normal", "colors": "x", "texture_uvs": "uv"}
_FACE_NAMES = {"indices": "face", "texture_uvs": "face_uv", "colors": "face_color"}


def from_open3d_legacy(geometry: Any) -> Fields:
    """Return the fields of a legacy ``TriangleMesh`` or ``PointCloud``."""
    if type(geometry).__name__ == "PointCloud":
        names = {"pos": "points", "normal": "normals", "x": "colors"}
    else:
        names = {"pos": "vertices", "normal": "vertex_normals", "x": "vertex_colors"}
        names["face"] = "triangles"
    arrays = {name: np.array(getattr(geometry, theirs)) for name, theirs in names.items()}
    fields = {k: v for k, v in arrays.items() if len(v) or k in ("pos", "face")}
    if "face" in fields and geometry.has_triangle_uvs():
        fields["face_uv"] = np.array(geometry.triangle_uvs).reshape(-1, 3, 2)
    return fields


def from_open3d_tensor(geometry: Any) -> Fields:
    """Return all attributes of a tensor ``TriangleMesh`` or ``PointCloud``."""
    geometry = geometry.cpu()
    is_cloud = type(geometry).__name__ == "PointCloud"
    fields: Fields = {}
    for name, tensor in (geometry.point if is_cloud else geometry.vertex).items():
        fields[_POINT_NAMES.get(name) or attribute_name(name)] = np.array(tensor.numpy())
    if "x" in fields:
        fields["x"] = unit_colors(fields["x"])
    if is_cloud:
        return fields or {"pos": np.empty((0, 3))}
    for name, tensor in geometry.triangle.items():
        if name != "normals":  # they follow from the positions
            fields[_FACE_NAMES.get(name, f"face_{name}")] = np.array(tensor.numpy())
    fields.setdefault("pos", np.empty((0, 3)))
    fields.setdefault("face", np.empty((0, 3), np.int64))
    return fields


def from_trimesh(mesh: Any) -> Fields:
    """Return the fields of a ``trimesh.Trimesh`` or ``trimesh.PointCloud``."""
    fields: Fields = {"pos": np.array(mesh.vertices)}
    if type(mesh).__name__ == "PointCloud":
        if len(mesh.colors):
            fields.update(split_alpha(np.asarray(mesh.colors)))
        return fields
    fields["face"] = np.array(mesh.faces).reshape(-1, 3)
    if mesh.visual.kind == "vertex":
        fields.update(split_alpha(np.asarray(mesh.visual.vertex_colors)))
    elif mesh.visual.kind == "face":
        fields["face_color"] = unit_colors(np.asarray(mesh.visual.face_colors)[:, :3])
    elif mesh.visual.kind == "texture" and mesh.visual.uv is not None:
        fields["uv"] = np.array(mesh.visual.uv)
    # trimesh computes missing normals on access; only normals that it was given are data.
    if "vertex_normals" in mesh._cache:
        fields["normal"] = np.array(mesh.vertex_normals)
    for name, value in mesh.vertex_attributes.items():
        fields[attribute_name(name)] = np.array(value)
    for name, value in mesh.face_attributes.items():
        fields[f"face_{name.removeprefix('face_')}"] = np.array(value)
    return fields


def to_trimesh(fields: Fields) -> Any:
    """Return a ``trimesh.Trimesh``; attributes it has no member for become custom attributes."""
    import trimesh

    points = {k: v for k, v in fields.items() if not k.startswith("face") and k != "pos"}
    faces = {k[5:]: v for k, v in fields.items() if k.startswith("face_")}
    # Any: trimesh types its attributes as invariant dictionaries of everything array-like.
    keywords: dict[str, Any] = {"vertex_attributes": points, "face_attributes": faces}
    colors = byte_colors(points["x"]) if "x" in points else None
    if colors is not None:
        if np.array_equal(unit_colors(colors), points["x"]):
            del points["x"]
        opacity = byte_alpha(points["alpha"]) if "alpha" in points else None
        if opacity is not None:
            colors = np.concatenate([colors, opacity[:, None]], axis=1)
            del points["alpha"]
        keywords["vertex_colors"] = colors
    elif "uv" in points:  # trimesh holds either colors or a texture
        keywords["visual"] = trimesh.visual.TextureVisuals(uv=points.pop("uv"))
    elif "color" in faces and byte_colors(faces["color"]) is not None:
        keywords["face_colors"] = byte_colors(faces["color"])
        if np.array_equal(unit_colors(keywords["face_colors"]), faces["color"]):
            del faces["color"]
    return trimesh.Trimesh(
        vertices=fields["pos"],
        faces=fields["face"],
        vertex_normals=points.pop("normal", None),
        process=False,
        **keywords,
    )


def to_trimesh_cloud(fields: Fields) -> Any:
    """Return a ``trimesh.PointCloud``, with colors if ``x`` holds colors."""
    import trimesh

    colors = byte_colors(fields["x"]) if "x" in fields else None
    return trimesh.PointCloud(fields["pos"], colors=colors)


def _colors_for_open3d(fields: Fields) -> Array | None:
    x = fields.get("x")
    return x if x is not None and byte_colors(x) is not None else None


def to_open3d_legacy(fields: Fields) -> Any:
    """Return a legacy ``TriangleMesh`` or ``PointCloud``: positions, normals, colors, UVs."""
    o3d = load_open3d()

    def vectors(array: Array) -> Any:
        return o3d.utility.Vector3dVector(np.ascontiguousarray(array, np.float64))

    colors, normal = _colors_for_open3d(fields), fields.get("normal")
    if "face" not in fields:
        cloud = o3d.geometry.PointCloud(vectors(fields["pos"]))
        if colors is not None:
            cloud.colors = vectors(colors)
        if normal is not None:
            cloud.normals = vectors(normal)
        return cloud
    triangles = o3d.utility.Vector3iVector(fields["face"].astype(np.int32))
    mesh = o3d.geometry.TriangleMesh(vectors(fields["pos"]), triangles)
    if colors is not None:
        mesh.vertex_colors = vectors(colors)
    if normal is not None:
        mesh.vertex_normals = vectors(normal)
    uv = fields.get("face_uv")
    if uv is None and "uv" in fields:
        uv = fields["uv"][fields["face"]]
    if uv is not None:
        mesh.triangle_uvs = o3d.utility.Vector2dVector(uv.reshape(-1, 2).astype(np.float64))
    return mesh


def to_open3d_tensor(fields: Fields) -> Any:
    """Return a tensor ``TriangleMesh`` or ``PointCloud`` with all attributes."""
    o3d = load_open3d()

    def tensor(array: Array) -> Any:
        return o3d.core.Tensor(native_copy(array))

    theirs = {ours: name for name, ours in _POINT_NAMES.items()}
    faces_theirs = {ours: name for name, ours in _FACE_NAMES.items()}
    is_mesh = "face" in fields
    geometry = o3d.t.geometry.TriangleMesh() if is_mesh else o3d.t.geometry.PointCloud()
    points = geometry.vertex if is_mesh else geometry.point
    for name, value in fields.items():
        if not name.startswith("face"):
            points[theirs.get(name, name)] = tensor(value)
        else:
            short = name.removeprefix("face_")
            geometry.triangle[faces_theirs.get(name, short)] = tensor(value)
    return geometry
