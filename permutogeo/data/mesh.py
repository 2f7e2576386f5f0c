"""Triangle meshes as :class:`~torch_geometric.data.Data`, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data import _convert, _obj, _ply
from permutogeo.data._fields import (
    Fields,
    as_array,
    byte_colors,
    from_data,
    to_data,
    unit_colors,
    words_of,
)
from permutogeo.data._files import read_with, replacing, suffix_of
from permutogeo.data._obj import read_obj, write_obj
from permutogeo.data._off import read_off, write_off
from permutogeo.data._open3d import is_open3d
from permutogeo.data._ply import read_ply, write_ply
from permutogeo.data._stl import read_stl, write_stl


def _read_glb(path: Path) -> Fields:
    import trimesh

    scene: Any = trimesh.load_scene(path, process=False)
    parts = list(scene.geometry.values())
    nodes = [scene.graph[name] for name in scene.graph.nodes_geometry]
    if len(parts) == len(nodes) == 1 and np.array_equal(nodes[0][0], np.eye(4)):
        return _convert.from_trimesh(parts[0])  # joining parts would lose their normals
    return _convert.from_trimesh(scene.to_mesh())


def _write_glb(path: Path, fields: Fields) -> None:
    held = {k: v for k, v in fields.items() if k in ("pos", "face", "x", "normal", "uv")}
    if "x" in held and byte_colors(held["x"]) is None:  # the format has colors of 8 bits
        del held["x"]
    mesh = _convert.to_trimesh(held)
    mesh.vertex_attributes.clear()
    path.write_bytes(mesh.export(file_type="glb", include_normals="normal" in held))


READERS: dict[str, Callable[[Path], Fields]] = {
    ".ply": read_ply,
    ".obj": read_obj,
    ".off": read_off,
    ".stl": read_stl,
    ".glb": _read_glb,
}
WRITERS: dict[str, Callable[[Path, Fields], None]] = {
    ".ply": write_ply,
    ".obj": write_obj,
    ".off": write_off,
    ".stl": write_stl,
    ".glb": _write_glb,
}
# What a format holds besides arrays.
WORDS = {".obj": _obj.WORDS, ".ply": _ply.WORDS}
KINDS: dict[str, Callable[[Fields], Any]] = {
    "numpy": lambda fields: (fields["pos"], fields["face"]),
    "trimesh": _convert.to_trimesh,
    "open3d": _convert.to_open3d_legacy,
    "open3d_tensor": _convert.to_open3d_tensor,
}


def _rows_of_faces(face: Any) -> Any:
    """Faces as ``[F, 3]``: NumPy has them so, a tensor follows PyG and has ``[3, F]``."""
    array = as_array(face, "from_mesh", "face")
    if array.ndim != 2 or array.shape[0 if isinstance(face, Tensor) else 1] != 3:
        expected = "[3, F]" if isinstance(face, Tensor) else "[F, 3]"
        got = list(array.shape)
        raise ValueError(f"from_mesh: Expected 'face' of shape {expected} (got {got})")
    return array.T if isinstance(face, Tensor) else array


def _fields_of(source: Any, face: Any) -> tuple[Fields, str]:
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        suffix = suffix_of(path, READERS)
        what = f"a mesh in the format {suffix[1:].upper()}"
        return read_with(path, READERS[suffix], what), f"'{path}'"
    if is_open3d(source, "TriangleMesh", tensor=False):
        return _convert.from_open3d_legacy(source), "from_mesh"
    if is_open3d(source, "TriangleMesh", tensor=True):
        return _convert.from_open3d_tensor(source), "from_mesh"
    kind = type(source)
    if kind.__module__.startswith("trimesh.") and hasattr(source, "faces"):
        return _convert.from_trimesh(source), "from_mesh"
    if isinstance(source, (np.ndarray, Tensor)):
        if face is None:
            raise ValueError("from_mesh: Expected 'face' beside an array of vertices (got None)")
        fields = {"pos": as_array(source, "from_mesh", "source"), "face": _rows_of_faces(face)}
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

    Polygons become triangles; vertices keep their order and their number. What is read is
    checked: counts against the file's header, face indices, finite positions.

    Args:
        source: A path (``.ply``, ``.obj``, ``.off``, ``.stl``, ``.glb``), vertices
            :math:`(N, 3)`, an Open3D ``TriangleMesh`` (legacy or tensor) or a
            ``trimesh.Trimesh``. It is never changed, nor is its memory shared.
        face: With vertices, their triangles: an array :math:`(F, 3)` or a tensor
            :math:`(3, F)`.
        x: Values of the vertices, instead of the colors of ``source``.
        normal: Normals of the vertices, instead of those of ``source``.
        dtype: The type of positions and other floating attributes; ``None`` leaves each as the
            source has it, and text as float64.
        check: ``False`` takes positions that are not finite, faces that point nowhere and no faces
            at all as they are: :class:`permutogeo.transforms.RepairMesh` mends that.

    Returns:
        ``pos [N, 3]`` and ``face [3, F]``; where known ``x [N, 3]`` (colors in [0, 1]),
        ``normal [N, 3]``, ``uv [N, 2]`` or ``face_uv [F, 3, 2]``, ``alpha [N]``, and every other
        attribute of vertices under its own name, of faces as ``face_<name>``. Of an OBJ file also
        ``face_material``, ``face_group``, ``face_object`` and ``face_smoothing``, which count in
        the lists ``material_names`` and so on, and the list ``material_library``; of a PLY file
        the list ``texture_files``.

    Example:
        >>> import numpy as np
        >>> from permutogeo.data import from_mesh
        >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
        >>> from_mesh(vertices, np.array([[0, 1, 2]]))
        Data(pos=[3, 3], face=[3, 1])
    """
    fields, origin = _fields_of(source, face)
    for name, value in (("x", x), ("normal", normal)):
        if value is not None:
            array = as_array(value, "from_mesh", name)
            fields[name] = unit_colors(array) if array.dtype == np.uint8 else array
    return to_data(fields, origin, dtype, mesh=True, check=check)


def to_mesh(
    data: Data, path: str | os.PathLike[str] | None = None, *, kind: str = "trimesh"
) -> Any:
    r"""Turns :class:`~torch_geometric.data.Data` with ``pos`` and ``face`` into a mesh.

    PLY files, trimesh and Open3D's tensor geometry hold every attribute of vertices and faces;
    OBJ, GLB and Open3D's legacy meshes hold colors, normals and texture coordinates, OBJ materials
    and groups too; OFF holds colors; STL holds the geometry, and ``face_attribute`` in 16 bits. A
    file is written whole or not at all.

    Args:
        data: The mesh. It is never changed.
        path: Where to write (``.ply``, ``.obj``, ``.off``, ``.stl``, ``.glb``). Without it an
            object is returned.
        kind: The object's kind: ``"trimesh"``, ``"open3d"``, ``"open3d_tensor"``, or
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
    fields.update(words_of(data, WORDS.get(suffix, ())))
    with replacing(path) as temporary:
        WRITERS[suffix](temporary, fields)
    return path
