"""Conversion between triangle meshes and :class:`~torch_geometric.data.Data`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data import convert
from permutogeo.data.fields import (
    Fields,
    as_array,
    from_data,
    string_attributes,
    to_data,
    unit_colors,
)
from permutogeo.data.files import read_file, replacing, suffix_of
from permutogeo.data.formats import obj, ply
from permutogeo.data.formats.gltf import read_gltf, write_gltf
from permutogeo.data.formats.obj import read_obj, write_obj
from permutogeo.data.formats.off import read_off, write_off
from permutogeo.data.formats.ply import read_ply, write_ply
from permutogeo.data.formats.polygons import POLYGON_COUNT
from permutogeo.data.formats.stl import read_stl, write_stl
from permutogeo.data.open3d_loader import is_open3d

READERS: dict[str, Callable[[Path], Fields]] = {
    ".ply": read_ply,
    ".obj": read_obj,
    ".off": read_off,
    ".stl": read_stl,
    ".glb": read_gltf,
    ".gltf": read_gltf,
}
WRITERS: dict[str, Callable[[Path, Fields], None]] = {
    ".ply": write_ply,
    ".obj": write_obj,
    ".off": write_off,
    ".stl": write_stl,
    ".glb": write_gltf,
    ".gltf": write_gltf,
}
# Attributes of a format that are lists of strings.
_STRING_ATTRIBUTES = {".obj": obj.STRING_ATTRIBUTES, ".ply": ply.STRING_ATTRIBUTES}
KINDS: dict[str, Callable[[Fields], Any]] = {
    "numpy": lambda fields: (fields["pos"], fields["face"]),
    "trimesh": convert.to_trimesh,
    "open3d": convert.to_open3d_legacy,
    "open3d_tensor": convert.to_open3d_tensor,
}


def _face_rows(face: Any) -> Any:
    """Return faces as ``[F, 3]``; arrays have this shape, tensors follow PyG with ``[3, F]``."""
    array = as_array(face, "from_mesh", "face")
    if array.ndim != 2 or array.shape[0 if isinstance(face, Tensor) else 1] != 3:
        expected = "[3, F]" if isinstance(face, Tensor) else "[F, 3]"
        got = list(array.shape)
        raise ValueError(f"from_mesh: Expected 'face' of shape {expected} (got {got})")
    return array.T if isinstance(face, Tensor) else array


def _read_source(source: Any, face: Any) -> tuple[Fields, str]:
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        suffix = suffix_of(path, READERS)
        what = f"a mesh in the format {suffix[1:].upper()}"
        return read_file(path, READERS[suffix], what), f"'{path}'"
    if is_open3d(source, "TriangleMesh", tensor=False):
        return convert.from_open3d_legacy(source), "from_mesh"
    if is_open3d(source, "TriangleMesh", tensor=True):
        return convert.from_open3d_tensor(source), "from_mesh"
    kind = type(source)
    if kind.__module__.startswith("trimesh.") and hasattr(source, "faces"):
        return convert.from_trimesh(source), "from_mesh"
    if isinstance(source, (np.ndarray, Tensor)):
        if face is None:
            raise ValueError("from_mesh: Expected 'face' beside an array of vertices (got None)")
        fields = {"pos": as_array(source, "from_mesh", "source"), "face": _face_rows(face)}
        return fields, "from_mesh"
    raise TypeError(
        "from_mesh: Expected a path, an array or tensor of vertices, or a mesh of Open3D or "
        f"trimesh (got {kind.__module__}.{kind.__name__})"
    )


def from_mesh(
    source: Any,
    face: np.ndarray | Tensor | None = None,
    *,
    x: np.ndarray | Tensor | None = None,
    normal: np.ndarray | Tensor | None = None,
    dtype: torch.dtype | None = torch.float32,
    check: bool = True,
) -> Data:
    r"""Turns a triangle mesh into :class:`~torch_geometric.data.Data`.

    Polygons become triangles, with a warning; vertices keep their order and number. Counts in the
    header of a file, face indices and finite positions are checked.

    Args:
        source: A path (``.ply``, ``.obj``, ``.off``, ``.stl``, ``.glb``, ``.gltf``),
            vertices :math:`(N, 3)`, an Open3D ``TriangleMesh`` (legacy or tensor) or a
            ``trimesh.Trimesh``. It is not changed, and no memory is shared.
        face: Triangles if ``source`` is an array or tensor of vertices: an array :math:`(F, 3)` or
            a tensor :math:`(3, F)`.
        x: Vertex values, instead of the colors of ``source``.
        normal: Vertex normals, instead of those of ``source``.
        dtype: Type of positions and other floating-point attributes; ``None`` keeps the types of
            the source, and float64 for text.
        check: If ``False``, non-finite positions, face indices out of range and missing faces are
            accepted; :class:`permutogeo.transforms.RepairMesh` removes them.

    Returns:
        ``pos [N, 3]`` and ``face [3, F]``; if present ``x [N, 3]`` (colors in [0, 1]),
        ``normal [N, 3]``, ``uv [N, 2]`` or ``face_uv [F, 3, 2]``, ``alpha [N]``, every other
        vertex attribute under its own name and face attributes as ``face_<name>``. OBJ files also
        give ``face_material``, ``face_group``, ``face_object`` and ``face_smoothing``, indices into
        the lists ``material_names`` and so on, and the list ``material_library``; PLY files give
        the list ``texture_files``.

    Example:
        >>> import numpy as np
        >>> from permutogeo.data import from_mesh
        >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
        >>> from_mesh(vertices, np.array([[0, 1, 2]]))
        Data(pos=[3, 3], face=[3, 1])
    """
    fields, origin = _read_source(source, face)
    polygons = fields.pop(POLYGON_COUNT, None)
    if polygons is not None and len(fields["face"]) > polygons[0]:
        warnings.warn(
            f"{origin}: polygons were split into triangles (faces: {polygons[0]:,} before, "
            f"{len(fields['face']):,} after)",
            UserWarning,
            stacklevel=2,
        )
    for name, value in (("x", x), ("normal", normal)):
        if value is not None:
            array = as_array(value, "from_mesh", name)
            fields[name] = unit_colors(array) if array.dtype == np.uint8 else array
    return to_data(fields, origin, dtype, mesh=True, check=check)


def to_mesh(
    data: Data, path: str | os.PathLike[str] | None = None, *, kind: str = "trimesh"
) -> Any:
    r"""Turns :class:`~torch_geometric.data.Data` with ``pos`` and ``face`` into a mesh.

    PLY files, trimesh and Open3D's tensor geometry hold all attributes of vertices and faces; OBJ,
    GLB and Open3D's legacy meshes hold colors, normals and texture coordinates, OBJ also materials
    and groups; OFF holds colors; STL holds the geometry, and ``face_attribute`` in 16 bits. Files
    are written atomically.

    Args:
        data: The mesh; it is not changed.
        path: Output file (``.ply``, ``.obj``, ``.off``, ``.stl``, ``.glb``, ``.gltf``). If
            ``None``, an object is returned.
        kind: Type of the returned object: ``"trimesh"``, ``"open3d"``, ``"open3d_tensor"``, or
            ``"numpy"`` for the pair vertices :math:`(N, 3)`, faces :math:`(F, 3)`.

    Example:
        >>> import numpy as np
        >>> from permutogeo.data import from_mesh, to_mesh
        >>> data = from_mesh(np.eye(3), np.array([[0, 1, 2]]))
        >>> vertices, faces = to_mesh(data, kind="numpy")
        >>> faces
        array([[0, 1, 2]])
    """
    if kind not in KINDS:
        raise ValueError(f"to_mesh: Expected 'kind' in {', '.join(KINDS)} (got '{kind}')")
    fields = from_data(data, "to_mesh", mesh=True)
    if path is None:
        return KINDS[kind](fields)
    path = Path(path)
    suffix = suffix_of(path, WRITERS)
    fields.update(string_attributes(data, _STRING_ATTRIBUTES.get(suffix, ())))
    with replacing(path) as temporary:
        WRITERS[suffix](temporary, fields)
    return path
