"""Named NumPy arrays between files (or foreign objects) and :class:`Data`, with their checks.

Readers return and writers take a dictionary of arrays under the attribute names of :class:`Data`:
``pos [N, 2|3]``, ``x [N, C]``, ``normal [N, 3]``, ``uv [N, 2]``, any other point attribute
``[N, ...]``, and for meshes ``face [F, 3]`` (rows, as in files) with ``face_* [F, ...]``
attributes. Arrays of strings belong to the whole object, such as the names of materials.
"""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.typing import Array

Fields = dict[str, Array]

# Names with a meaning of their own in `Data`, which an attribute of a file must not take; all
# members of the class are reserved too, except those that are attributes of points.
_RESERVED = frozenset({"pos", "batch", "ptr", "edge_index"})
_POINT_MEMBERS = frozenset({"x", "y", "time"})
# Above this ratio of magnitude to extent, float32 keeps fewer than three digits of the extent.
_LARGEST_RATIO = 1e4
# Attributes that must be finite; any other may use NaN for "unknown".
FINITE_ATTRIBUTES = ("pos", "x", "normal", "uv", "face_uv")


def native_copy(array: Array) -> Array:
    """Return a contiguous copy in native byte order and a data type that torch supports."""
    array = np.array(array, order="C")
    dtype = array.dtype.newbyteorder("=")
    if dtype.kind == "u" and dtype.itemsize > 1:
        dtype = np.dtype(np.int64)
    return array.astype(dtype, copy=False)


def cast_exact(values: Array, dtype: np.dtype, name: str) -> Array:
    """Cast numbers of a text file to the type in its header; raises if integers do not fit."""
    with np.errstate(invalid="ignore", over="ignore"):
        out = values.astype(dtype)
    if dtype.kind in "iu" and (out != values).any():
        raise ValueError(f"'{name}' has the value {values[out != values].flat[0]}, no {dtype.name}")
    return out


def attribute_name(name: str, prefix: str = "vertex") -> str:
    """Return a property name of a file as an attribute name that shadows no member of Data."""
    name = re.sub(r"\W", "_", name)
    taken = name in _RESERVED or name.startswith("face")
    taken = taken or (hasattr(Data, name) and name not in _POINT_MEMBERS) or keyword.iskeyword(name)
    return f"{prefix}_{name}" if taken or not name[:1].isalpha() else name


def unit_colors(colors: Array) -> Array:
    """Return colors as float32; integers are scaled from the range of their type to [0, 1]."""
    if colors.dtype.kind in "ui":
        return (colors / np.float64(np.iinfo(colors.dtype).max)).astype(np.float32)
    with np.errstate(over="ignore"):  # the checks refuse infinite values
        return colors.astype(np.float32)


def byte_colors(x: Array) -> Array | None:
    """Return ``x [N, 3]`` in [0, 1] as 8-bit colors; ``None`` if it has another shape or range."""
    if x.ndim != 2 or x.shape[1] != 3 or x.dtype.kind != "f" or len(x) == 0:
        return None
    if not (x.min() >= 0.0 and x.max() <= 1.0):
        return None
    return np.rint(x * 255.0).astype(np.uint8)


def byte_alpha(alpha: Array) -> Array | None:
    """Return opacities ``[N]`` as 8-bit values; ``None`` if that would not be exact."""
    if alpha.ndim != 1 or len(alpha) == 0 or not (alpha.min() >= 0.0 and alpha.max() <= 1.0):
        return None
    rounded = np.rint(alpha * 255.0).astype(np.uint8)
    return rounded if np.array_equal(unit_colors(rounded), alpha) else None


def split_alpha(rgba: Array) -> Fields:
    """Return colors ``[N, 3|4]`` as ``x``, and ``alpha`` unless all points are opaque."""
    colors = unit_colors(rgba)
    fields = {"x": colors[:, :3]}
    if colors.shape[1] == 4 and (colors[:, 3] != 1).any():
        fields["alpha"] = colors[:, 3]
    return fields


def pad_to_3d(pos: Array) -> Array:
    """Return positions ``[N, 2|3]`` as ``[N, 3]``, with z = 0 for planar ones."""
    if pos.shape[1] == 3:
        return pos
    return np.concatenate([pos, np.zeros_like(pos[:, :1])], axis=1)


def unique_rows(array: Array) -> tuple[Array, Array]:
    """Return the distinct rows of a matrix, by first occurrence, and the index of each row."""
    _, first, inverse = np.unique(array, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return array[first[order]], rank[inverse.reshape(-1)]


def check_fields(
    fields: Fields, origin: str, *, mesh: bool, dims: tuple[int, ...] = (3,), values: bool = True
) -> None:
    """Raise unless shapes agree and, with ``values``, numbers are finite and faces in range.

    Args:
        fields: Arrays of one object.
        origin: File or function that the message names.
        mesh: Whether faces are required.
        dims: Allowed dimensions of ``pos``.
        values: Whether to look at the numbers, not only at shapes.
    """
    _check_shapes(fields, origin, dims)
    if values:
        _check_finite(fields, origin)
    if values and mesh:
        face, count = fields.get("face", np.empty((0, 3), np.int64)), len(fields["pos"])
        _expect(origin, len(face) > 0, "at least one face", "none; read it with from_point_cloud")
        worst = face.max() if face.min() >= 0 else face.min()
        _expect(origin, 0 <= worst < count, f"face indices from 0 to {count - 1}", f"{worst}")


def _expect(origin: str, condition: bool, expected: str, got: str) -> None:
    if not condition:
        raise ValueError(f"{origin}: Expected {expected} (got {got})")


def _check_finite(fields: Fields, origin: str) -> None:
    for name in FINITE_ATTRIBUTES:
        if name in fields and fields[name].dtype.kind == "f":
            bad = ~np.isfinite(fields[name]).reshape(len(fields[name]), -1).all(axis=1)
            row = int(bad.argmax()) if bad.any() else 0
            got = f"NaN or infinity in row {row}"
            _expect(origin, not bad.any(), f"finite values in '{name}'", got)


def _check_shapes(fields: Fields, origin: str, dims: tuple[int, ...]) -> None:
    pos, face = fields["pos"], fields.get("face")
    dims_text = "|".join(str(dim) for dim in dims)
    shape_ok = pos.ndim == 2 and pos.shape[1] in dims and pos.dtype.kind in "fiu"
    got = f"{list(pos.shape)} {pos.dtype}"
    _expect(origin, shape_ok, f"positions of shape [N, {dims_text}]", got)
    _expect(origin, len(pos) > 0, "at least one point", "none")
    for name, value in fields.items():
        if value.dtype.kind != "U":
            rows = len(face) if face is not None and name.startswith("face") else len(pos)
            _expect(origin, len(value) == rows, f"{rows} rows in '{name}'", f"{len(value)}")
    if "x" in fields:
        shape = fields["x"].shape
        _expect(origin, len(shape) == 2, "'x' of shape [N, C]", f"{list(shape)}")
    if "normal" in fields:
        shape = fields["normal"].shape
        expected = f"'normal' of shape {list(pos.shape)}"
        _expect(origin, shape == pos.shape, expected, f"{list(shape)}")
    if face is not None and face.size > 0:
        shape_ok = face.ndim == 2 and face.shape[1] == 3
        _expect(origin, shape_ok, "triangles of shape [F, 3]", f"{list(face.shape)}")
        _expect(origin, face.dtype.kind in "iu", "integer face indices", f"{face.dtype}")


def _check_range(fields: Fields, origin: str, dtype: torch.dtype | None) -> None:
    """Raise if a finite number would become infinite in the type of the result."""
    for name, value in fields.items():
        target = torch.float32 if name == "x" else dtype
        if target is None or value.dtype.kind != "f":
            continue
        largest = torch.finfo(target).max
        if float(np.finfo(value.dtype).max) <= largest:
            continue
        rows = np.abs(value).reshape(len(value), -1)
        bad = (rows > largest) & np.isfinite(rows)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            kind = str(target).removeprefix("torch.")
            got = f"{rows[row, column]:.4g} in row {row}"
            _expect(origin, False, f"values of '{name}' within {kind}", got)


def _warn_precision(pos: Array, origin: str) -> None:
    """Warn if large coordinates (mostly georeferenced ones) lose digits in float32."""
    extent = np.ptp(pos.astype(np.float64), axis=0).max()
    magnitude = float(np.abs(pos).max())
    if extent > 0 and magnitude > _LARGEST_RATIO * extent:
        warnings.warn(
            f"{origin}: coordinates near {magnitude:.3g} with an extent of {extent:.3g} lose "
            "digits in float32; pass dtype=torch.float64, or subtract an origin first",
            UserWarning,
            stacklevel=4,
        )


def to_data(
    fields: Fields,
    origin: str,
    dtype: torch.dtype | None,
    *,
    mesh: bool = False,
    dims: tuple[int, ...] = (3,),
    check: bool = True,
) -> Data:
    """Check ``fields`` and copy them into a new :class:`Data`.

    Args:
        fields: Arrays of one object.
        origin: File or function that error messages name.
        dtype: Type of floating-point attributes; ``None`` keeps that of each array.
        mesh: Whether faces are required.
        dims: Allowed dimensions of ``pos``.
        check: Whether values must be finite and faces in range; shapes are always checked.
    """
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"{origin}: Expected a floating 'dtype' (got {dtype})")
    if "x" in fields and fields["x"].ndim == 1:
        fields = {**fields, "x": fields["x"][:, None]}
    check_fields(fields, origin, mesh=mesh, dims=dims, values=check)
    if check:
        _check_range(fields, origin, dtype)
    if dtype == torch.float32 and fields["pos"].dtype == np.float64:
        _warn_precision(fields["pos"], origin)
    data = Data()
    for name, value in fields.items():
        if value.dtype.kind == "U":
            data[name] = value.tolist()
        else:
            data[name] = _to_tensor(name, value, dtype)
    return data


def _to_tensor(name: str, value: Array, dtype: torch.dtype | None) -> Tensor:
    tensor = torch.from_numpy(native_copy(value))
    if name == "face":
        return tensor.long().t().contiguous()
    if name == "x":
        return tensor.float()
    if name in ("pos", "normal") and not tensor.is_floating_point():
        tensor = tensor.double()
    if tensor.is_floating_point():
        return tensor if dtype is None else tensor.to(dtype)
    return tensor if tensor.dtype == torch.bool else tensor.long()


def from_data(
    data: Data, caller: str, *, mesh: bool = False, dims: tuple[int, ...] = (3,)
) -> Fields:
    """Return checked copies of the point attributes and, with ``mesh``, face attributes of data.

    Args:
        data: Source; it is not changed.
        caller: Function that error messages name.
        mesh: Whether faces are required and kept.
        dims: Allowed dimensions of ``pos``.
    """
    for name in ("pos", "face") if mesh else ("pos",):
        if not isinstance(data.get(name), Tensor):
            names = attribute_names(data)
            raise ValueError(f"{caller}: Expected '{name}' in data (it has {names})")
    num_points = data["pos"].size(0)
    num_faces = data["face"].size(-1) if mesh else -1
    fields: Fields = {}
    for name, value in data.to_dict().items():  # keys() does not keep the order
        if not isinstance(value, Tensor) or value.dim() == 0 or name in ("batch", "ptr"):
            continue
        array = value.detach().cpu()
        array = array.float() if array.dtype in (torch.bfloat16, torch.float16) else array
        if name == "face":
            if mesh:
                fields[name] = native_copy(array.t().numpy())
        elif name.startswith("face_"):
            if len(array) == num_faces:
                fields[name] = native_copy(array.numpy())
        elif len(array) == num_points and "index" not in name:
            fields[name] = native_copy(array.numpy())
    if "x" in fields and fields["x"].ndim == 1:
        fields["x"] = fields["x"][:, None]
    check_fields(fields, caller, mesh=mesh, dims=dims)
    return fields


def string_attributes(data: Data, names: Iterable[str]) -> Fields:
    """Return those of the named attributes that are lists of strings, each string on one line."""
    values = {name: data.get(name) for name in names}
    return {
        name: np.array([" ".join(str(item).split()) for item in value], dtype=np.str_)
        for name, value in values.items()
        if isinstance(value, (list, tuple)) and value
    }


def attribute_names(data: Data) -> str:
    """Return the attribute names of ``data`` in order, for an error message."""
    return ", ".join(data.to_dict()) or "nothing"


def as_array(value: Any, caller: str, name: str) -> Array:
    """Return a NumPy view of a numeric array or tensor; raises for anything else.

    Args:
        value: Array or tensor; bfloat16 is converted to float32.
        caller: Function that the message names.
        name: Argument that the message names.
    """
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value
    got = f"{type(value).__module__}.{type(value).__name__}"
    if isinstance(value, np.ndarray):
        got = f"an array of {value.dtype}"
    raise TypeError(f"{caller}: Expected '{name}' as a numeric array or tensor (got {got})")
