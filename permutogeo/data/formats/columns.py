"""Conversion between point attributes and named scalar columns, as in PLY and PCD files.

``label [N, 3]`` becomes the columns ``label_0, label_1, label_2``, which are joined again on
reading; positions, normals, colors and texture coordinates have the usual names. A scalar whose
name has another meaning in files (PyG's ``y`` is no coordinate) is written as ``attr_y``.
"""

from __future__ import annotations

import re

import numpy as np

from permutogeo.data.fields import (
    Fields,
    attribute_name,
    byte_alpha,
    byte_colors,
    pad_to_3d,
    unit_colors,
)
from permutogeo.typing import Array

Columns = dict[str, Array]

_KNOWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "pos": (("x", "y", "z"),),
    "normal": (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z")),
    "uv": (("u", "v"), ("s", "t"), ("texture_u", "texture_v")),
}
_COLORS = (
    ("red", "green", "blue"),
    ("diffuse_red", "diffuse_green", "diffuse_blue"),
    ("r", "g", "b"),
)
_ESCAPE = "attr_"
_TAKEN = frozenset(
    name for group in (*_KNOWN.values(), _COLORS) for names in group for name in names
)


def _take(columns: Columns, names: tuple[str, ...]) -> Array | None:
    if not all(name in columns for name in names):
        return None
    return np.stack([columns.pop(name) for name in names], axis=1)


def _grouped(columns: Columns, name: str) -> Array | None:
    """Remove the columns ``name_0 … name_k`` and return them as one array, if there are any."""
    count = 0
    while f"{name}_{count}" in columns:
        count += 1
    return _take(columns, tuple(f"{name}_{i}" for i in range(count))) if count else None


def from_columns(columns: Columns) -> Fields:
    """Return named columns as fields; raises if there are no positions."""
    columns = dict(columns)
    fields: Fields = {}
    for name, variants in _KNOWN.items():
        for variant in variants:
            value = _take(columns, variant)
            if value is not None:
                fields[name] = value
                break
    if "pos" not in fields:
        raise ValueError(f"no x, y, z among the columns {', '.join(columns) or '(none)'}")
    for variant in _COLORS:
        value = _take(columns, variant)
        if value is not None:
            fields["x"] = unit_colors(value)
            break
    if "alpha" in columns:
        alpha = unit_colors(columns.pop("alpha"))
        if (alpha != 1).any():
            fields["alpha"] = alpha
    exact = _grouped(columns, "x")  # written beside colors that are not exact in 8 bits
    if exact is not None:
        fields["x"] = exact
    for name in list(columns):
        if name not in columns:  # part of a group before
            continue
        base = re.sub(r"_\d+$", "", name)
        grouped = base != name and not name.startswith(_ESCAPE)
        value = _grouped(columns, base) if grouped else None
        if value is None:
            base, value = name, columns.pop(name)
        base = base.removeprefix(_ESCAPE)
        fields[attribute_name(base)] = value
    return fields


def _scalar(name: str, value: Array) -> Array:
    """Return the column in a type of these formats (no 64-bit integers, no booleans)."""
    if value.dtype == np.bool_:
        return value.astype(np.uint8)
    if value.dtype.kind in "iu" and value.dtype.itemsize > 4:
        low, high = (int(value.min()), int(value.max())) if len(value) else (0, 0)
        kind = np.iinfo(np.int32 if low < 0 or high < 2**31 else np.uint32)
        if low < kind.min or high > kind.max:
            worst = low if low < kind.min else high
            raise ValueError(f"Expected '{name}' to fit 32-bit integers (got {worst})")
        return value.astype(kind.dtype)
    return value


def _column_name(name: str) -> str:
    """Return the column name of a scalar attribute, escaped if it has another meaning in files."""
    misread = name in _TAKEN or name == "alpha" or re.search(r"_\d+$", name)
    return f"{_ESCAPE}{name}" if misread or name.startswith(_ESCAPE) else name


def to_columns(fields: Fields, *, wide: bool = False) -> Columns:
    """Return point attributes (not those of faces) as named columns.

    Args:
        fields: The attributes.
        wide: Whether the format has 64-bit integers.
    """
    columns = dict(zip(("x", "y", "z"), pad_to_3d(fields["pos"]).T, strict=True))
    for name, value in fields.items():
        if name == "pos":
            continue
        if name in ("normal", "uv") and value.shape[1] == len(_KNOWN[name][0]):
            columns.update(zip(_KNOWN[name][0], value.T, strict=True))
            continue
        colors = byte_colors(value) if name == "x" else None
        if colors is not None:
            columns.update(zip(("red", "green", "blue"), colors.T, strict=True))
            if np.array_equal(unit_colors(colors), value.astype(np.float32)):
                continue
        opacity = byte_alpha(value) if name == "alpha" else None
        if opacity is not None:
            columns[name] = opacity
        elif value.ndim == 1:
            columns[_column_name(name)] = value if wide else _scalar(name, value)
        else:
            flat = value.reshape(len(value), -1)
            parts = flat.T if wide else [_scalar(name, column) for column in flat.T]
            columns.update({f"{name}_{i}": column for i, column in enumerate(parts)})
    return columns
