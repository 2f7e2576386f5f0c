"""E57 files of terrestrial scanners: all scans in one coordinate system, with all their fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data.fields import Fields, attribute_name
from permutogeo.typing import Array

# Points that are decoded at a time.
_CHUNK = 1_000_000
_CARTESIAN = ("cartesianX", "cartesianY", "cartesianZ")
_SPHERICAL = ("sphericalRange", "sphericalAzimuth", "sphericalElevation")
_COLORS = ("colorRed", "colorGreen", "colorBlue")
_NORMALS = ("nor:normalX", "nor:normalY", "nor:normalZ")
_INVALID = ("cartesianInvalidState", "sphericalInvalidState")


def load_pye57() -> Any:
    """Import pye57; raises with the command that installs it."""
    try:
        import pye57
    except ImportError as error:
        raise ImportError(
            "Expected the package pye57 to read E57: pip install 'permutogeo[lidar]'"
        ) from error
    return pye57


def read_e57(path: Path) -> Fields:
    """Read the valid points of all scans, moved by the pose of their scan.

    ``scan`` is the index of the scan of each point if there are several; a field that only some
    scans have is NaN (or -1, for integers) elsewhere. ``crs`` is the reference system, if any.
    """
    with _plain_errors(), load_pye57().E57(str(path)) as file:
        scans = [_read_scan(file, index) for index in range(file.scan_count)]
        crs = _metadata(file)
    if not scans:
        raise ValueError("no scans")
    counts = [len(scan["pos"]) for scan in scans]
    fields: Fields = {}
    for name in dict.fromkeys(name for scan in scans for name in scan):
        found = next(scan[name] for scan in scans if name in scan)
        missing = np.nan if found.dtype.kind == "f" else -1
        parts = [
            scan.get(name, np.full((count, *found.shape[1:]), missing, found.dtype))
            for scan, count in zip(scans, counts, strict=True)
        ]
        fields[name] = np.concatenate(parts)
    for name in ("x", "normal"):  # these must be finite
        if name in fields and not all(name in scan for scan in scans):
            fields[name] = np.nan_to_num(fields[name])
    if len(scans) > 1:
        fields["scan"] = np.repeat(np.arange(len(scans)), counts)
    if crs:
        fields["crs"] = np.array([crs])
    return fields


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Shorten errors of the E57 library to their first sentence; its source files follow."""
    try:
        yield
    except Exception as error:
        reason, mark, _ = str(error).partition("****")
        if not mark:
            raise
        raise ValueError(" ".join(reason.split())) from error


def _metadata(file: Any) -> str:
    """Return the reference system of the file; empty if there is none."""
    if not file.root.isDefined("coordinateMetadata"):
        return ""
    return str(file.root["coordinateMetadata"].value()).strip()


def _columns(file: Any, header: Any) -> tuple[Fields, Fields]:
    """Return all point fields of a scan, and the limits of those that are integers."""
    from pye57 import libe57

    prototype = libe57.StructureNode(header.points.prototype())
    nodes = {name: prototype[name] for name in header.point_fields}
    limits = {
        name: np.array([node.minimum(), node.maximum()])
        for name, node in nodes.items()
        if isinstance(node, libe57.IntegerNode)
    }
    buffers, arrays = libe57.VectorSourceDestBuffer(), {}
    for name in nodes:
        arrays[name] = np.empty(_CHUNK, "q" if name in limits else "d")
        buffers.append(
            libe57.SourceDestBuffer(file.image_file, name, arrays[name], _CHUNK, True, True)
        )
    reader = header.points.reader(buffers)
    parts: dict[str, list[Array]] = {name: [] for name in nodes}
    total = 0
    while count := reader.read():
        total += count
        for name, array in arrays.items():
            parts[name].append(array[:count].copy())
    reader.close()
    if total != header.point_count:
        raise ValueError(f"the header claims {header.point_count:,} points, there are {total:,}")
    empty = np.empty(0)
    return {n: np.concatenate(p) if p else empty for n, p in parts.items()}, limits


def _take(columns: Fields, names: tuple[str, ...]) -> Array | None:
    """Remove the columns and return them as one array, if all are there."""
    if not all(name in columns for name in names):
        return None
    return np.stack([columns.pop(name) for name in names], axis=1)


def _read_scan(file: Any, index: int) -> Fields:
    header = file.get_header(index)
    columns, limits = _columns(file, header)
    for name in _INVALID:
        if name in columns:
            valid = columns.pop(name) == 0
            columns = {key: value[valid] for key, value in columns.items()}
    pos, polar = _take(columns, _CARTESIAN), _take(columns, _SPHERICAL)
    if pos is None:
        if polar is None:
            raise ValueError(f"no coordinates among the fields {', '.join(columns)}")
        distance, azimuth, elevation = polar.T
        flat = distance * np.cos(elevation)
        pos = np.stack(
            [flat * np.cos(azimuth), flat * np.sin(azimuth), distance * np.sin(elevation)], axis=1
        )
    rotation, shift = np.eye(3), np.zeros(3)
    if header.has_pose():
        rotation, shift = header.rotation_matrix, header.translation
    fields: Fields = {"pos": pos @ rotation.T + shift}
    largest = [float(limits[name][1]) if name in limits else 1.0 for name in _COLORS]
    colors = _take(columns, _COLORS)
    if colors is not None:
        fields["x"] = (colors / np.maximum(largest, 1.0)).astype(np.float32)
    normal = _take(columns, _NORMALS)
    if normal is not None:
        fields["normal"] = normal @ rotation.T
    fields.update({attribute_name(name): value for name, value in columns.items()})
    return fields
