"""LAS and LAZ files with all dimensions, scales, offsets, reference system and records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data.fields import Fields
from permutogeo.data.formats.las_records import (
    coordinate_system,
    fields_to_records,
    load_laspy,
    pack_header,
    records_to_fields,
)
from permutogeo.data.formats.laz_chunks import check_chunks
from permutogeo.typing import Array

# Points that are decoded at a time.
CHUNK = 1_000_000
# Sizes of the header of version 1.4 and of the heads of its records.
_HEADER_BYTES, _VLR_BYTES, _EVLR_BYTES = 375, 54, 60


@contextmanager
def decoder_errors() -> Iterator[None]:
    """Turn a panic of the LAZ decoder, which is no ``Exception``, into a ``ValueError``."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ValueError(f"the decoder failed: {error}") from error
        raise


@contextmanager
def encoder_errors() -> Iterator[None]:
    """Turn errors of the LAZ encoder, which hide those of the file, into an ``OSError``."""
    try:
        with decoder_errors():
            yield
    except Exception as error:
        if type(error).__name__ == "LazrsError":
            raise OSError(f"Expected room on the disk to write points (got {error})") from error
        raise


@contextmanager
def open_las(path: Path) -> Iterator[Any]:
    """Open a file as a ``laspy.LasReader`` whose header agrees with the size of the file."""
    laspy = load_laspy()
    check_record_counts(path)
    with decoder_errors(), laspy.open(path, read_evlrs=False) as reader:
        check_header(reader.header, path.stat().st_size)
        if reader.header.are_points_compressed and reader.header.point_count:
            with open(path, "rb") as file:
                check_chunks(file, reader.header)
        reader.read_evlrs()
        yield reader


def check_record_counts(path: Path) -> None:
    """Raise if more variable length records are claimed than the file has room for.

    laspy reads as many records as the header claims, also past the end of the file.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(_HEADER_BYTES)
        if head[:4] != b"LASF" or len(head) < 227:
            raise ValueError("the file does not start with a LAS header")
        header_size, start, count = struct.unpack_from("<HII", head, 94)
        if not header_size <= start <= size or count * _VLR_BYTES > start - header_size:
            claim = f"{count:,} records before the points at byte {start:,}"
            raise ValueError(f"the header claims {claim}, the file has {size:,} bytes")
        if head[25] < 4 or len(head) < _HEADER_BYTES:
            return
        at, count = struct.unpack_from("<QI", head, 235)
        for _ in range(count):
            file.seek(at)
            record = file.read(_EVLR_BYTES)
            length = struct.unpack_from("<Q", record, 20)[0] if len(record) == _EVLR_BYTES else size
            at += _EVLR_BYTES + length
            if at > size:
                raise ValueError(f"{count:,} records after the points are claimed, the file ends")


def check_header(header: Any, size: int) -> None:
    """Raise if a header contradicts the size of its file.

    Args:
        header: The ``laspy.LasHeader``.
        size: Number of bytes of the file.
    """
    if not (np.isfinite(header.scales).all() and np.isfinite(header.offsets).all()):
        raise ValueError("a scale or an offset is not finite")
    if (header.scales == 0).any():
        raise ValueError("a scale is 0")
    room = size - header.offset_to_point_data
    needed = header.point_count * header.point_format.size
    if not header.are_points_compressed and needed > room:
        claim = f"{header.point_count:,} points of {header.point_format.size} bytes"
        raise ValueError(f"the header claims {claim}, {max(room, 0):,} bytes follow")


def header_strings(path: Path, header: Any) -> Fields:
    """Return the attributes of the whole file: its header, and its reference system if any."""
    with open(path, "rb") as file:
        raw = file.read(header.offset_to_point_data)
        extended = b""
        if header.version.minor >= 4 and header.number_of_evlrs:
            file.seek(header.start_of_first_evlr)
            extended = file.read()
    found: Fields = {"las_header": pack_header(raw, extended)}
    crs = coordinate_system(header)
    if crs:
        found["crs"] = np.array([crs])
    return found


def read_chunks(reader: Any, size: int = CHUNK) -> Iterator[Any]:
    """Yield the points of an open file in parts, and raise if there are fewer than claimed."""
    found = 0
    with decoder_errors():
        for points in reader.chunk_iterator(size):
            found += len(points)
            yield points
    if found != reader.header.point_count:
        raise ValueError(f"the header claims {reader.header.point_count:,} points, got {found:,}")


def read_las(path: Path) -> Fields:
    """Read a LAS, LAZ or COPC file."""
    laspy = load_laspy()
    with open_las(path) as reader:
        header = reader.header
        parts: list[Array] = [points.array for points in read_chunks(reader)]
        array = np.concatenate(parts) if parts else np.empty(0, header.point_format.dtype())
        points = laspy.ScaleAwarePointRecord(
            array, header.point_format, header.scales, header.offsets
        )
        return {**records_to_fields(points), **header_strings(path, header)}


def write_las(path: Path, fields: Fields) -> None:
    """Write all point attributes; the suffix says whether they are compressed."""
    with LasStream(path) as stream:
        stream.write(fields)


class LasStream:
    """A LAS or LAZ file written part by part.

    The first part fixes the layout; later parts have the same attributes.

    Args:
        path: File to write.
    """

    def __init__(self, path: Path):
        self.path = path
        self.num_points = 0
        self._names: set[str] = set()
        self._header: Any = None
        self._writer: Any = None

    def __enter__(self) -> LasStream:
        return self

    def write(self, fields: Fields) -> None:
        """Append points."""
        laspy = load_laspy()
        names = {name for name, value in fields.items() if value.dtype.kind != "U"}
        if self._writer is not None and names != self._names:
            raise ValueError(
                f"Expected the same attributes in all parts of a file (got {sorted(names)} after "
                f"{sorted(self._names)})"
            )
        points, header = fields_to_records(fields, self._header)
        if self._writer is None:
            self._names = names
            self._header = header
            compress = self.path.suffix.lower() == ".laz"
            self._writer = laspy.open(self.path, mode="w", header=header, do_compress=compress)
        with encoder_errors():
            self._writer.write_points(points)
        self.num_points += len(points)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._writer is None:
            return
        if kind is not None:  # the file is thrown away; closing would write to a full disk
            self._writer.dest.close()
            return
        with closing(self._writer.dest), encoder_errors():
            if self._header.evlrs:
                self._writer.write_evlrs(self._header.evlrs)
            self._writer.close()
