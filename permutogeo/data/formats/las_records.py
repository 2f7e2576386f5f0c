"""Conversion between fields and the point records of LAS, and the header that they need.

The header of the file travels with the points as the string attribute ``las_header``: the bytes
before the points and the extended variable length records, in base64. Version, point format,
scales, offsets, reference system and all records are written again from it.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np

from permutogeo.data.fields import Fields, attribute_name, unit_colors
from permutogeo.data.formats.columns import Columns, from_columns, to_columns
from permutogeo.typing import Array

STRING_ATTRIBUTES = ("las_header", "crs")
# Columns that PLY and PCD name otherwise.
_ALIASES = {"normal_x": "nx", "normal_y": "ny", "normal_z": "nz"}
_COLORS = ("red", "green", "blue")
# Largest integer coordinate of a new file; the rest of the 32 bits is room for moved points.
_LARGEST = 1e9
_LONGEST_NAME = 32
# Extents of the octree of COPC: they describe another order of the points.
_DERIVED = {("copc", 1), ("copc", 1000), ("laszip encoded", 22204)}


def load_laspy() -> Any:
    """Import laspy with its LAZ decoder; raises with the command that installs both."""
    try:
        import laspy
        import lazrs  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Expected the packages laspy and lazrs to read and write LAS, LAZ and COPC: "
            "pip install 'permutogeo[lidar]'"
        ) from error
    return laspy


def pack_header(raw: bytes, evlrs: bytes) -> Array:
    """Return the bytes before the points and of the extended records as strings."""
    return np.array([base64.b64encode(part).decode("ascii") for part in (raw, evlrs)])


def unpack_header(strings: Array) -> Any:
    """Return the ``laspy.LasHeader`` of packed strings, without records of the old layout."""
    laspy = load_laspy()
    from laspy.vlrs.vlrlist import VLRList

    try:
        raw, extended = (base64.b64decode(part, validate=True) for part in strings)
        header = laspy.LasHeader.read_from(io.BytesIO(raw))
        count = header.number_of_evlrs if extended else 0
        header.evlrs = VLRList.read_from(io.BytesIO(extended), count, extended=True)
    except Exception as error:
        raise ValueError(f"Expected 'las_header' of a LAS file ({error})") from error
    for records in (header.vlrs, header.evlrs):  # in place: assignment moves the extra bytes
        for index in reversed(range(len(records))):
            if (records[index].user_id, records[index].record_id) in _DERIVED:
                records.pop(index)
    return header


def records_to_fields(points: Any) -> Fields:
    """Return all dimensions of a ``laspy.ScaleAwarePointRecord`` as fields."""
    columns: Columns = {}
    for name in points.point_format.dimension_names:
        if name in "XYZ":
            index = "XYZ".index(name)
            scale, offset = points.scales[index], points.offsets[index]
            columns[name.lower()] = points.array[name] * scale + offset
            continue
        value = np.asarray(points[name])
        if value.ndim == 2:
            columns.update({f"{name}_{i}": column for i, column in enumerate(value.T)})
        else:
            columns[name] = value
    return from_columns(columns)


def coordinate_system(header: Any) -> str:
    """Return the well-known text of the reference system; empty if there is none."""
    for record in (*header.vlrs, *(header.evlrs or [])):
        if (record.user_id, record.record_id) == ("LASF_Projection", 2112):
            data = record.record_data_bytes()
            return data.rstrip(b"\0").decode("utf-8", "replace")
    return ""


def las_columns(fields: Fields) -> Columns:
    """Return the point attributes as columns; colors have 16 bits, as LAS requires."""
    x = fields.get("x")
    columns = to_columns(
        {name: value for name, value in fields.items() if name != "x" and value.dtype.kind != "U"},
        wide=True,
    )
    if x is None:
        return columns
    if x.shape[1] == 3 and len(x) and x.min() >= 0 and x.max() <= 1:
        colors = np.rint(x.astype(np.float64) * 65535).astype(np.uint16)
        columns.update(zip(_COLORS, colors.T, strict=True))
        if np.array_equal(unit_colors(colors), x.astype(np.float32)):
            return columns
    columns.update({f"x_{i}": column for i, column in enumerate(x.T)})
    return columns


def make_header(fields: Fields, columns: Columns) -> Any:
    """Return the header for the columns: that of the source file, or a new one of version 1.4."""
    laspy = load_laspy()
    if "las_header" in fields:
        header = unpack_header(fields["las_header"])
        names = {_key(name) for name in columns}
        stale = [n for n in header.point_format.extra_dimension_names if not _names(n) & names]
        for name in stale:
            header.remove_extra_dim(name)
    else:
        header = laspy.LasHeader(version="1.4", point_format=7 if "red" in columns else 6)
        pos = np.stack([columns[name] for name in "xyz"], axis=1)
        low, high = pos.min(axis=0).astype(np.float64), pos.max(axis=0).astype(np.float64)
        header.offsets = np.floor(low)
        extent = max(float((high - header.offsets).max()), 1e-300)
        header.scales = np.full(3, 10.0 ** max(math.ceil(math.log10(extent / _LARGEST)), -9))
    crs = " ".join(fields.get("crs", np.array([], np.str_)))
    if crs and not coordinate_system(header) and header.version.minor >= 4:
        from laspy.vlrs.known import WktCoordinateSystemVlr

        header.vlrs.append(WktCoordinateSystemVlr(crs))
        header.global_encoding.wkt = True
    _add_dimensions(header, columns)
    return header


def _key(name: str) -> str:
    """Return the name by which a dimension and a column are compared."""
    return attribute_name(_ALIASES.get(name, name))


def _names(name: str) -> set[str]:
    """Return the names of the columns that a dimension may be found under."""
    return {_key(name), _key(f"{name}_0"), _key(f"attr_{name}")}


def _find(columns: Columns, name: str, width: int) -> Array | None:
    """Return the column of a dimension, or its ``width`` columns side by side."""
    by_key = {_key(column): value for column, value in columns.items()}
    if width > 1:
        parts = [by_key.get(_key(f"{name}_{i}")) for i in range(width)]
        found = [part for part in parts if part is not None]
        return np.stack(found, axis=1) if len(found) == width else None
    found_one = by_key.get(_key(name))
    return by_key.get(_key(f"attr_{name}")) if found_one is None else found_one


def _fits(info: Any, value: Array) -> bool:
    """Return whether the values are integers in the range of a standard dimension."""
    if info.kind.name == "FloatingPoint" or len(value) == 0:
        return True
    low, high = _limits(info)
    whole = value.dtype.kind in "iub" or bool((value == np.rint(value)).all())
    return whole and low <= value.min() and value.max() <= high


def _limits(info: Any) -> tuple[int, int]:
    bits = info.num_bits // max(info.num_elements, 1)
    signed = info.kind.name == "SignedInteger"
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _add_dimensions(header: Any, columns: Columns) -> None:
    """Add an extra dimension for each column that the point format has none for."""
    laspy = load_laspy()
    known = {_key(n) for n in header.point_format.dimension_names} | {"x", "y", "z"}
    for info in header.point_format.extra_dimensions:
        if info.num_elements > 1:
            known |= {_key(f"{info.name}_{i}") for i in range(info.num_elements)}
    for name in list(columns):
        value = columns[name]
        if name in ("x", "y", "z"):
            continue
        if _key(name) in known:
            info = next((d for d in header.point_format.dimensions if _key(d.name) == _key(name)),
                        None)  # fmt: skip
            if info is None or not info.is_standard or _fits(info, value):
                continue
            # A float intensity, for example: kept exactly beside the standard dimension.
            columns[f"attr_{name}"] = columns.pop(name)
            name = f"attr_{name}"
            if _key(name) in known:
                continue
        if len(name.encode()) > _LONGEST_NAME:
            raise ValueError(f"Expected names of at most {_LONGEST_NAME} bytes (got '{name}')")
        kind = value.dtype.newbyteorder("=")
        header.add_extra_dim(laspy.ExtraBytesParams(name, "u1" if kind == np.bool_ else kind))


def fields_to_records(fields: Fields, header: Any = None) -> tuple[Any, Any]:
    """Return fields as a ``laspy.ScaleAwarePointRecord`` and its header.

    Args:
        fields: Point attributes; ``las_header`` gives the layout.
        header: Header that an earlier call returned, for the next part of the same file.
    """
    laspy = load_laspy()
    columns = las_columns(fields)
    if header is None:
        header = make_header(fields, columns)
    points = laspy.ScaleAwarePointRecord.zeros(len(fields["pos"]), header=header)
    pos = np.stack([columns[name] for name in "xyz"], axis=1).astype(np.float64)
    steps = np.rint((pos - header.offsets) / header.scales)
    if len(steps) and not np.abs(steps).max() < 2**31:
        row = int(np.abs(steps).max(axis=1).argmax())
        raise ValueError(
            f"Expected coordinates within 32 bits of scale {header.scales.min():g} around the "
            f"offset {header.offsets.tolist()} (got {pos[row].tolist()} in row {row})"
        )
    for axis, name in enumerate("XYZ"):
        points.array[name] = steps[:, axis].astype(np.int32)
    for info in header.point_format.dimensions:
        value = None if info.name in "XYZ" else _find(columns, info.name, info.num_elements)
        if value is None:
            continue
        if info.is_standard and not _fits(info, value):
            if _find(columns, f"attr_{info.name}", 1) is not None:
                continue
            low, high = _limits(info)
            raise ValueError(
                f"Expected integers from {low} to {high} in '{info.name}' "
                f"(got {value.min()} to {value.max()})"
            )
        points[info.name] = value if info.is_standard else value.astype(value.dtype)
    return points, header


def new_layout(offset: tuple[float, float, float], scale: float) -> Fields:
    """Return the attribute ``las_header`` of a new file of version 1.4 with given steps.

    Args:
        offset: Origin of the integer coordinates.
        scale: Their step.
    """
    header = load_laspy().LasHeader(version="1.4", point_format=6)
    header.offsets, header.scales = np.array(offset), np.full(3, scale)
    buffer = io.BytesIO()
    header.write_to(buffer)
    return {"las_header": pack_header(buffer.getvalue(), b"")}
