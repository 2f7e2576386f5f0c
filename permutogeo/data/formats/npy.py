"""Point clouds as NumPy arrays: NPY and NPZ."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from permutogeo.data.fields import Fields, attribute_name, unit_colors
from permutogeo.typing import Array


def array_to_fields(values: Array, *, wide: bool = True) -> Fields:
    """Return points ``[N, 2|3]`` or, with ``wide``, ``[N, 3 + C]`` as ``pos`` and ``x``."""
    if values.ndim != 2 or values.shape[1] < 2 or (values.shape[1] > 3 and not wide):
        more = ", or [N, 3 + C]" if wide else ""
        raise ValueError(
            f"Expected points of shape [N, 2] or [N, 3]{more} (got {list(values.shape)})"
        )
    fields = {"pos": values[:, :3]}
    if values.shape[1] > 3:
        fields["x"] = values[:, 3:]
    return fields


def read_npy(path: Path) -> Fields:
    """Read one array, see :func:`array_to_fields`."""
    return array_to_fields(load_array(path))


def load_array(path: Path) -> Array:
    """Read one array; a file that is shorter than its header claims is refused at once."""
    # A memory map compares the claim with the size of the file; reading allocates the claim first.
    return np.array(np.lib.format.open_memmap(path, mode="r"))


def write_npy(path: Path, fields: Fields) -> None:
    """Write ``pos`` and ``x`` as columns of one array."""
    pos, x = fields["pos"], fields.get("x")
    if x is not None and pos.shape[1] == 2:
        raise ValueError("Expected 'pos' of shape [N, 3] beside 'x' in .npy (got [N, 2]); use .npz")
    np.save(path, pos if x is None else np.concatenate([pos, x], axis=1), allow_pickle=False)


def read_npz(path: Path) -> Fields:
    """Read named arrays; the positions are ``pos``, ``points`` or ``xyz``."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        key = next((name for name in ("pos", "points", "xyz") if name in members), None)
        if key is None:
            raise ValueError(f"no 'pos' among {', '.join(members) or 'nothing'}")
        fields: Fields = {"pos": _read_member(archive, members.pop(key))}
        count = fields["pos"].shape[:1]
        for name, info in members.items():
            shape = _member_shape(archive, info)
            if name == "x":
                value = _read_member(archive, info)
                value = value[:, None] if value.ndim == 1 else value
                fields[name] = unit_colors(value) if value.dtype == np.uint8 else value
            elif shape and shape[:1] == count:  # no memory for what is no attribute of points
                fields[attribute_name(name)] = _read_member(archive, info)
    return fields


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Read the header of an array; returns its shape and type."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype


def _member_shape(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[int, ...]:
    """Return the shape of an array in an archive; ``()`` for a member that is no array."""
    with archive.open(info) as file:
        if file.read(6) != b"\x93NUMPY":
            return ()
    with archive.open(info) as file:
        return _header(file)[0]


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """Read an array of an archive; the size that its header claims must be that of the member."""
    with archive.open(info) as file:
        shape, dtype = _header(file)
        claimed = math.prod(shape) * dtype.itemsize
        held = info.file_size - file.tell()
        if claimed != held and not dtype.hasobject:
            raise ValueError(f"'{info.filename}' claims {claimed:,} bytes, there are {held:,}")
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def write_npz(path: Path, fields: Fields) -> None:
    """Write each point attribute under its own name."""
    np.savez(path, **fields)  # type: ignore[arg-type]
