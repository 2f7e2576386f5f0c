"""Conversion between point clouds and :class:`~torch_geometric.data.Data`."""

from __future__ import annotations

import os
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
    pad_to_3d,
    string_attributes,
    to_data,
    unit_colors,
)
from permutogeo.data.files import read_file, replacing, suffix_of
from permutogeo.data.formats.copc import write_copc
from permutogeo.data.formats.e57 import read_e57
from permutogeo.data.formats.kitti import read_kitti
from permutogeo.data.formats.las import read_las, write_las
from permutogeo.data.formats.las_records import STRING_ATTRIBUTES
from permutogeo.data.formats.npy import array_to_fields, read_npy, read_npz, write_npy, write_npz
from permutogeo.data.formats.obj import read_obj, write_obj
from permutogeo.data.formats.off import read_off, write_off
from permutogeo.data.formats.pcd import read_pcd, write_pcd
from permutogeo.data.formats.ply import read_ply, write_ply
from permutogeo.data.formats.xyz import EXTRA_ATTRIBUTE, read_xyz, write_xyz
from permutogeo.data.open3d_loader import is_open3d

READERS: dict[str, Callable[[Path], Fields]] = {
    ".ply": read_ply,
    ".obj": read_obj,
    ".off": read_off,
    ".pcd": read_pcd,
    ".bin": read_kitti,
    ".npy": read_npy,
    ".npz": read_npz,
    ".las": read_las,
    ".laz": read_las,
    ".copc.laz": read_las,
    ".e57": read_e57,
    **dict.fromkeys(EXTRA_ATTRIBUTE, read_xyz),
}
WRITERS: dict[str, Callable[[Path, Fields], None]] = {
    ".ply": write_ply,
    ".obj": write_obj,
    ".off": write_off,
    ".pcd": write_pcd,
    ".npy": write_npy,
    ".npz": write_npz,
    ".las": write_las,
    ".laz": write_las,
    ".copc.laz": write_copc,
    **dict.fromkeys(EXTRA_ATTRIBUTE, write_xyz),
}
# Formats of surveys, whose coordinates need more digits than float32 has.
PRECISE = (".las", ".laz", ".copc.laz", ".e57")
KINDS: dict[str, Callable[[Fields], Any]] = {
    "numpy": lambda fields: fields["pos"],
    "trimesh": convert.to_trimesh_cloud,
    "open3d": convert.to_open3d_legacy,
    "open3d_tensor": convert.to_open3d_tensor,
}


def _read_source(source: Any, has_x: bool) -> tuple[Fields, str]:
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        suffix = suffix_of(path, READERS)
        what = f"a point cloud in the format {suffix[1:].upper()}"
        fields = read_file(path, READERS[suffix], what)
        # Only the vertices of a mesh file are kept, and the header of a survey.
        held = {
            k: v
            for k, v in fields.items()
            if k in STRING_ATTRIBUTES or not (k.startswith("face") or v.dtype.kind == "U")
        }
        return held, f"'{path}'"
    if is_open3d(source, "PointCloud", tensor=False):
        return convert.from_open3d_legacy(source), "from_point_cloud"
    if is_open3d(source, "PointCloud", tensor=True):
        return convert.from_open3d_tensor(source), "from_point_cloud"
    kind = type(source)
    if kind.__module__.startswith("trimesh.") and kind.__name__ == "PointCloud":
        return convert.from_trimesh(source), "from_point_cloud"
    if isinstance(source, (np.ndarray, Tensor)):
        array = as_array(source, "from_point_cloud", "source")
        try:
            return array_to_fields(array, wide=not has_x), "from_point_cloud"
        except ValueError as error:
            raise ValueError(f"from_point_cloud: {error}") from None
    raise TypeError(
        "from_point_cloud: Expected a path, an array or tensor of points, or a point cloud of "
        f"Open3D or trimesh (got {kind.__module__}.{kind.__name__})"
    )


def from_point_cloud(
    source: Any,
    *,
    x: np.ndarray | Tensor | None = None,
    normal: np.ndarray | Tensor | None = None,
    drop_invalid: bool = False,
    dtype: torch.dtype | str | None = "auto",
    check: bool = True,
) -> Data:
    r"""Turns a point cloud into :class:`~torch_geometric.data.Data`.

    Args:
        source: A path (``.las``, ``.laz``, ``.copc.laz``, ``.e57``, ``.ply``, ``.obj``, ``.off``,
            ``.pcd``, ``.xyz``, ``.xyzn``, ``.xyzrgb``, ``.txt``, ``.npy``, ``.npz``, or ``.bin`` of
            KITTI with the ``.label`` file of SemanticKITTI beside it), points
            :math:`(N, 2)`, :math:`(N, 3)` or :math:`(N, 3 + C)` whose further columns become
            ``x``, an Open3D ``PointCloud`` (legacy or tensor) or a ``trimesh.PointCloud``. It is
            not changed, and no memory is shared.
        x: Point values, instead of the colors of ``source``.
        normal: Point normals, instead of those of ``source``.
        drop_invalid: Drop points with NaN or infinite coordinates, as depth cameras write for
            missing returns; by default they are an error.
        dtype: Type of positions and other floating-point attributes; ``None`` keeps the types of
            the source, and float64 for text. ``"auto"`` is float32, but the types of the file for
            LAS, LAZ, COPC and E57, whose coordinates need float64.
        check: If ``False``, non-finite positions are accepted;
            :class:`permutogeo.transforms.RepairMesh` drops them with a warning.

    Returns:
        ``pos [N, 2|3]``; if present ``x [N, C]`` (colors in [0, 1]), ``normal [N, 3]`` and every
        other attribute under its own name. LAS, LAZ and COPC files also give ``las_header``, from
        which :func:`to_point_cloud` writes scales, offsets and records again, and ``crs``, the
        well-known text of the reference system; ``red``, ``green`` and ``blue`` are ``x``.

    Example:
        >>> import torch
        >>> from permutogeo.data import from_point_cloud
        >>> from_point_cloud(torch.rand(100, 3), x=torch.rand(100, 1))
        Data(pos=[100, 3], x=[100, 1])
    """
    if isinstance(dtype, str):
        if dtype != "auto":
            raise ValueError(f"from_point_cloud: Expected a torch.dtype or 'auto' (got '{dtype}')")
        is_precise = isinstance(source, (str, os.PathLike)) and str(source).lower().endswith(
            PRECISE
        )
        dtype = None if is_precise else torch.float32
    fields, origin = _read_source(source, x is not None)
    for name, value in (("x", x), ("normal", normal)):
        if value is not None:
            array = as_array(value, "from_point_cloud", name)
            fields[name] = unit_colors(array) if array.dtype == np.uint8 else array
    if drop_invalid and fields["pos"].dtype.kind == "f" and fields["pos"].ndim == 2:
        valid = np.asarray(np.isfinite(fields["pos"]).all(axis=1))
        # Attributes of another length are refused by the check below.
        fields = {
            k: v[valid] if len(v) == len(valid) and v.dtype.kind != "U" else v
            for k, v in fields.items()
        }
    return to_data(fields, origin, dtype, dims=(2, 3), check=check)


def to_point_cloud(
    data: Data, path: str | os.PathLike[str] | None = None, *, kind: str = "open3d"
) -> Any:
    r"""Turns :class:`~torch_geometric.data.Data` with ``pos`` into a point cloud.

    LAS, LAZ, COPC, PLY, PCD, NPZ and Open3D's tensor geometry hold all point attributes; Open3D's
    legacy clouds hold normals and colors. ``.xyz``, ``.txt`` and ``.npy`` hold ``pos`` and ``x``,
    ``.obj`` and ``.off`` ``pos`` and colors, ``.xyzn`` ``pos`` and ``normal``. Points that were
    read from LAS keep its scales, offsets and records; others get steps of a power of ten, at most
    1e-9 of their extent. Files are written atomically.

    Args:
        data: The points; it is not changed.
        path: Output file. If ``None``, an object is returned.
        kind: Type of the returned object: ``"open3d"``, ``"open3d_tensor"``, ``"trimesh"``, or
            ``"numpy"`` for the positions.

    Example:
        >>> import torch
        >>> from permutogeo.data import from_point_cloud, to_point_cloud
        >>> to_point_cloud(from_point_cloud(torch.zeros(2, 3)), kind="numpy").shape
        (2, 3)
    """
    if kind not in KINDS:
        raise ValueError(f"to_point_cloud: Expected 'kind' in {', '.join(KINDS)} (got '{kind}')")
    fields = from_data(data, "to_point_cloud", dims=(2, 3))
    if path is None:
        if kind != "numpy":
            fields["pos"] = pad_to_3d(fields["pos"])
        return KINDS[kind](fields)
    path = Path(path)
    suffix = suffix_of(path, WRITERS)
    writer = WRITERS[suffix]
    if suffix in PRECISE:
        fields.update(string_attributes(data, STRING_ATTRIBUTES))
    with replacing(path) as temporary:
        writer(temporary, fields)
    return path
