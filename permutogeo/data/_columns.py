"""Point attributes as named scalar columns, the way PLY and PCD files hold them.

``label [N, 3]`` becomes the columns ``label_0, label_1, label_2`` and is put together again when it
is read; positions, normals, colors and texture coordinates have the names every program knows. A
scalar whose own name would be misread (PyG's ``y`` is no coordinate) is written as ``attr_y``.
"""

from __future__ import annotations

import re

import numpy as np

from permutogeo.data._fields import (
    Array,
    Fields,
    attribute_name,
    byte_alpha,
    byte_colors,
    three_axes,
    unit_colors,
)

Columns = dict[str, Array]

KNOWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "pos": (("x", "y", "z"),),
    "normal": (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z")),
    "uv": (("u", "v"), ("s", "t"), ("texture_u", "texture_v")),
}
COLORS = (
    ("red", "green", "blue"),
    ("diffuse_red", "diffuse_green", "diffuse_blue"),
    ("r", "g", "b"),
)
ESCAPE = "attr_"
TAKEN = frozenset(name for group in (*KNOWN.values(), COLORS) for names in group for name in names)


def _take(columns: Columns, names: tuple[str, ...]) -> Array | None:
    if not all(name in columns for name in names):
        return None
    return np.stack([columns.pop(name) for name in names], axis=1)


def _grouped(columns: Columns, name: str) -> Array | None:
    """The columns ``name_0 … name_k`` as one array, if there are any."""
    count = 0
    while f"{name}_{count}" in columns:
        count += 1
    return _take(columns, tuple(f"{name}_{i}" for i in range(count))) if count else None


def from_columns(columns: Columns) -> Fields:
    """Named columns as fields; raises where there are no positions."""
    columns = dict(columns)
    fields: Fields = {}
    for name, variants in KNOWN.items():
        for variant in variants:
            value = _take(columns, variant)
            if value is not None:
                fields[name] = value
                break
    if "pos" not in fields:
        raise ValueError(f"no x, y, z among the columns {', '.join(columns) or '(none)'}")
    for variant in COLORS:
        value = _take(columns, variant)
        if value is not None:
            fields["x"] = unit_colors(value)
            break
    if "alpha" in columns:
        alpha = unit_colors(columns.pop("alpha"))
        if (alpha != 1).any():
            fields["alpha"] = alpha
    exact = _grouped(columns, "x")  # written beside colors that 8 bits cannot hold
    if exact is not None:
        fields["x"] = exact
    while columns:
        name = next(iter(columns))
        base = re.sub(r"_\d+$", "", name)
        grouped = base != name and not name.startswith(ESCAPE)
        value = _grouped(columns, base) if grouped else None
        if value is None:
            base, value = name, columns.pop(name)
        base = base.removeprefix(ESCAPE)
        fields[attribute_name(base)] = value
    return fields


def _scalar(name: str, value: Array) -> Array:
    """The column in a type that these formats have (no 64-bit integers, no booleans)."""
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
    """The column of a scalar attribute: its name, unless that would be read as something else."""
    misread = name in TAKEN or name == "alpha" or re.search(r"_\d+$", name)
    return f"{ESCAPE}{name}" if misread or name.startswith(ESCAPE) else name


def to_columns(fields: Fields) -> Columns:
    """Fields of points (not of faces) as named columns."""
    columns = dict(zip(("x", "y", "z"), three_axes(fields["pos"]).T, strict=True))
    for name, value in fields.items():
        if name == "pos":
            continue
        if name in ("normal", "uv") and value.shape[1] == len(KNOWN[name][0]):
            columns.update(zip(KNOWN[name][0], value.T, strict=True))
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
            columns[_column_name(name)] = _scalar(name, value)
        else:
            flat = value.reshape(len(value), -1)
            columns.update({f"{name}_{i}": _scalar(name, c) for i, c in enumerate(flat.T)})
    return columns
