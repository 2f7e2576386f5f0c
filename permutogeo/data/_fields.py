"""What every reader returns and every writer takes: named arrays, checked once.

A geometry on its way between a file (or a foreign object) and :class:`Data` is a dictionary of
NumPy arrays under the names of :class:`Data`: ``pos [N, 2|3]``, ``x [N, C]``, ``normal [N, 3]``,
``uv [N, 2]``, any other ``[N, ...]`` attribute of the points, and for meshes ``face [F, 3]``
(rows, as files have it) with ``face_* [F, ...]`` attributes. Arrays of strings are words about the
whole, such as the names of materials.
"""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

Array = NDArray[Any]
Fields = dict[str, Array]

# Names that mean something else in `Data`, and must not be taken by an attribute of a file;
# so must all members of the class but these, which are attributes of points.
RESERVED = frozenset({"pos", "batch", "ptr", "edge_index"})
PLAIN = frozenset({"x", "y", "time"})
# Beyond this ratio of magnitude to extent, float32 has fewer than three digits of the extent left.
LARGEST_RATIO = 1e4
# Numbers as words take many times their room.
ROWS_AT_ONCE = 2**14
# What has to be finite; any other attribute may use NaN for "unknown".
FINITE = ("pos", "x", "normal", "uv", "face_uv")


def native(array: Array) -> Array:
    """The array as a contiguous copy in this machine's byte order, of a type that torch knows."""
    array = np.array(array, order="C")
    dtype = array.dtype.newbyteorder("=")
    if dtype.kind == "u" and dtype.itemsize > 1:
        dtype = np.dtype(np.int64)
    return array.astype(dtype, copy=False)


def parsed(values: Array, dtype: np.dtype, name: str) -> Array:
    """Numbers read from text in the type a header gives them; raises where they do not fit."""
    with np.errstate(invalid="ignore", over="ignore"):
        out = values.astype(dtype)
    if dtype.kind in "iu" and (out != values).any():
        raise ValueError(f"'{name}' has the value {values[out != values].flat[0]}, no {dtype.name}")
    return out


def attribute_name(name: str, prefix: str = "vertex") -> str:
    """A name of a file as an attribute of :class:`Data` that hides none of its own."""
    name = re.sub(r"\W", "_", name)
    taken = name in RESERVED or name.startswith("face")
    taken = taken or (hasattr(Data, name) and name not in PLAIN) or keyword.iskeyword(name)
    return f"{prefix}_{name}" if taken or not name[:1].isalpha() else name


def unit_colors(colors: Array) -> Array:
    """Colors as float32; integers are scaled from their type's range to [0, 1]."""
    if colors.dtype.kind in "ui":
        return (colors / np.float64(np.iinfo(colors.dtype).max)).astype(np.float32)
    return colors.astype(np.float32)


def text_colors(colors: Array) -> Array:
    """Colors of a text format: [0, 1] is the rule, but some programs write 0 to 255."""
    return unit_colors(colors / 255.0 if len(colors) and colors.max() > 2.0 else colors)


def three_axes(pos: Array) -> Array:
    """Positions ``[N, 2|3]`` with a third coordinate, 0 where they have none."""
    if pos.shape[1] == 3:
        return pos
    return np.concatenate([pos, np.zeros_like(pos[:, :1])], axis=1)


def text_rows(values: Array) -> Iterator[str]:
    """Rows of numbers, with just as many digits as tell them apart from others."""
    for start in range(0, len(values), ROWS_AT_ONCE):
        yield from map(" ".join, values[start : start + ROWS_AT_ONCE].astype(np.str_).tolist())


def byte_colors(x: Array) -> Array | None:
    """``x`` as 8-bit colors, or ``None`` where it is no ``[N, 3]`` array in [0, 1]."""
    if x.ndim != 2 or x.shape[1] != 3 or x.dtype.kind != "f" or len(x) == 0:
        return None
    if not (x.min() >= 0.0 and x.max() <= 1.0):
        return None
    return np.rint(x * 255.0).astype(np.uint8)


def byte_alpha(alpha: Array) -> Array | None:
    """Opacities ``[N]`` in 8 bits, or ``None`` where these cannot hold them exactly."""
    if alpha.ndim != 1 or len(alpha) == 0 or not (alpha.min() >= 0.0 and alpha.max() <= 1.0):
        return None
    rounded = np.rint(alpha * 255.0).astype(np.uint8)
    return rounded if np.array_equal(unit_colors(rounded), alpha) else None


def split_alpha(rgba: Array) -> Fields:
    """Colors ``[N, 3|4]`` as ``x``, and ``alpha`` where not all points are opaque."""
    colors = unit_colors(rgba)
    fields = {"x": colors[:, :3]}
    if colors.shape[1] == 4 and (colors[:, 3] != 1).any():
        fields["alpha"] = colors[:, 3]
    return fields


def check_fields(
    fields: Fields, origin: str, *, mesh: bool, dims: tuple[int, ...] = (3,), values: bool = True
) -> None:
    """Raise one sentence that names ``origin`` unless the geometry is whole and finite.

    Without ``values`` it is enough that the arrays fit each other.
    """
    _check_shapes(fields, origin, dims)
    if values:
        _check_finite(fields, origin)
    if values and mesh:
        face, count = fields.get("face", np.empty((0, 3), np.int64)), len(fields["pos"])
        _need(origin, len(face) > 0, "at least one face", "none; read it with from_point_cloud")
        worst = face.max() if face.min() >= 0 else face.min()
        _need(origin, 0 <= worst < count, f"face indices from 0 to {count - 1}", f"{worst}")


def _need(origin: str, condition: bool, expected: str, got: str) -> None:
    if not condition:
        raise ValueError(f"{origin}: Expected {expected} (got {got})")


def _check_finite(fields: Fields, origin: str) -> None:
    for name in FINITE:
        if name in fields and fields[name].dtype.kind == "f":
            bad = ~np.isfinite(fields[name]).reshape(len(fields[name]), -1).all(axis=1)
            row = int(bad.argmax()) if bad.any() else 0
            got = f"NaN or infinity in row {row}"
            _need(origin, not bad.any(), f"finite values in '{name}'", got)


def _check_shapes(fields: Fields, origin: str, dims: tuple[int, ...]) -> None:
    pos, face = fields["pos"], fields.get("face")
    dims_text = "|".join(str(dim) for dim in dims)
    shape_ok = pos.ndim == 2 and pos.shape[1] in dims and pos.dtype.kind in "fiu"
    got = f"{list(pos.shape)} {pos.dtype}"
    _need(origin, shape_ok, f"positions of shape [N, {dims_text}]", got)
    _need(origin, len(pos) > 0, "at least one point", "none")
    for name, value in fields.items():
        if value.dtype.kind != "U":
            rows = len(face) if face is not None and name.startswith("face") else len(pos)
            _need(origin, len(value) == rows, f"{rows} rows in '{name}'", f"{len(value)}")
    if "x" in fields:
        shape = fields["x"].shape
        _need(origin, len(shape) == 2, "'x' of shape [N, C]", f"{list(shape)}")
    if "normal" in fields:
        shape = fields["normal"].shape
        expected = f"'normal' of shape {list(pos.shape)}"
        _need(origin, shape == pos.shape, expected, f"{list(shape)}")
    if face is not None and face.size > 0:
        shape_ok = face.ndim == 2 and face.shape[1] == 3
        _need(origin, shape_ok, "triangles of shape [F, 3]", f"{list(face.shape)}")
        _need(origin, face.dtype.kind in "iu", "integer face indices", f"{face.dtype}")


def _warn_precision(pos: Array, origin: str) -> None:
    """Say so where coordinates (georeferenced ones, mostly) do not fit the chosen type."""
    extent = np.ptp(pos.astype(np.float64), axis=0).max()
    magnitude = float(np.abs(pos).max())
    if extent > 0 and magnitude > LARGEST_RATIO * extent:
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
    """Check ``fields`` and copy them into a new :class:`Data`."""
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"{origin}: Expected a floating 'dtype' (got {dtype})")
    if "x" in fields and fields["x"].ndim == 1:
        fields = {**fields, "x": fields["x"][:, None]}
    check_fields(fields, origin, mesh=mesh, dims=dims, values=check)
    if dtype == torch.float32 and fields["pos"].dtype == np.float64:
        _warn_precision(fields["pos"], origin)
    data = Data()
    for name, value in fields.items():
        if value.dtype.kind == "U":
            data[name] = value.tolist()
        else:
            data[name] = _as_tensor(name, value, dtype)
    return data


def _as_tensor(name: str, value: Array, dtype: torch.dtype | None) -> Tensor:
    tensor = torch.from_numpy(native(value))
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
    """The arrays of ``data`` that belong to points and faces, checked, as copies."""
    for name in ("pos", "face") if mesh else ("pos",):
        if not isinstance(data.get(name), Tensor):
            raise ValueError(f"{caller}: Expected '{name}' in data (it has {listed(data)})")
    num_points = data["pos"].size(0)
    num_faces = data["face"].size(-1) if mesh else -1
    fields: Fields = {}
    for name, value in data.to_dict().items():  # in their order, which keys() does not keep
        if not isinstance(value, Tensor) or value.dim() == 0 or name in ("batch", "ptr"):
            continue
        array = value.detach().cpu()
        array = array.float() if array.dtype in (torch.bfloat16, torch.float16) else array
        if name == "face":
            if mesh:
                fields[name] = native(array.t().numpy())
        elif name.startswith("face_"):
            if len(array) == num_faces:
                fields[name] = native(array.numpy())
        elif len(array) == num_points and "index" not in name:
            fields[name] = native(array.numpy())
    if "x" in fields and fields["x"].ndim == 1:
        fields["x"] = fields["x"][:, None]
    check_fields(fields, caller, mesh=mesh, dims=dims)
    return fields


def words_of(data: Data, names: Iterable[str]) -> Fields:
    """The attributes of ``data`` that are lists of words, each on one line."""
    words = {name: data.get(name) for name in names}
    return {
        name: np.array([" ".join(str(word).split()) for word in value], dtype=np.str_)
        for name, value in words.items()
        if isinstance(value, (list, tuple)) and value
    }


def listed(data: Data) -> str:
    """The attributes of ``data`` for a message, in their order."""
    return ", ".join(data.to_dict()) or "nothing"


def as_array(value: Any, caller: str, name: str) -> Array:
    """A NumPy view of an array or tensor; raises for anything else."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value
    got = f"{type(value).__module__}.{type(value).__name__}"
    if isinstance(value, np.ndarray):
        got = f"an array of {value.dtype}"
    raise TypeError(f"{caller}: Expected '{name}' as a numeric array or tensor (got {got})")
