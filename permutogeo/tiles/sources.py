"""Points of a box from files that are larger than memory."""

from __future__ import annotations

import errno
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

import numpy as np

from permutogeo.data.fields import Fields
from permutogeo.data.files import lock_file, read_file
from permutogeo.data.formats.copc import CopcFile, CopcNode
from permutogeo.data.formats.las import CHUNK, header_strings, open_las, read_chunks
from permutogeo.tiles.grid import Grid
from permutogeo.typing import Array

# Bytes of decompressed upper nodes of an octree that are kept, since many tiles need them.
_CACHE_BYTES = 2**28


class TileSource(Protocol):
    """A file whose points can be read by the box.

    Args:
        header: The ``laspy.LasHeader`` of the file.
        strings: Its attributes of the whole file.
    """

    header: Any
    strings: Fields

    def cells(self) -> Iterator[int]:
        """Yield the tiles of the grid that may have points."""

    def read(self, low: Array, high: Array, most: int) -> Array | None:
        """Return the point records in a box; ``None`` if there are more than ``most``."""


def horizontal(points: Array, header: Any) -> Array:
    """Return the coordinates x and y ``[N, 2]`` of point records."""
    return np.stack(
        [points[name] * header.scales[i] + header.offsets[i] for i, name in enumerate("XY")], axis=1
    )


def _in_box(points: Array, header: Any, low: Array, high: Array) -> Array:
    pos = horizontal(points, header)
    return points[((pos >= low) & (pos <= high)).all(axis=1)]


def is_copc(path: Path) -> bool:
    """Return whether a file starts with the record of COPC."""
    with open(path, "rb") as file:
        head = file.read(395)
    return head[:4] == b"LASF" and head[377:395] == b"copc".ljust(16, b"\0") + b"\1\0"


class CopcSource:
    """Reads a COPC file by spatial query.

    Args:
        path: The file.
        grid: The tiles.
    """

    def __init__(self, path: Path, grid: Grid):
        self.octree = CopcFile(path)
        self.header = self.octree.header
        self.strings = header_strings(path, self.header)
        self.grid = grid
        self._cache: OrderedDict[CopcNode, Array] = OrderedDict()
        self._cached_bytes = 0

    def cells(self) -> Iterator[int]:
        """Yield all tiles: the hierarchy does not say which are empty."""
        yield from range(self.grid.shape[0] * self.grid.shape[1])

    def read(self, low: Array, high: Array, most: int) -> Array | None:
        """Return the point records in a box; ``None`` if there are more than ``most``."""
        found: list[Array] = []
        count = 0
        for node in self.octree.nodes_in(low, high):
            found.append(_in_box(self._node(node), self.header, low, high))
            count += len(found[-1])
            if count > most:
                return None
        empty = np.empty(0, self.header.point_format.dtype())
        return np.concatenate(found) if found else empty

    def _node(self, node: CopcNode) -> Array:
        points = self._cache.get(node)
        if points is None:
            points = self.octree.read_node(node)
            self._cache[node] = points
            self._cached_bytes += points.nbytes
            while self._cached_bytes > _CACHE_BYTES and len(self._cache) > 1:
                self._cached_bytes -= self._cache.popitem(last=False)[1].nbytes
        self._cache.move_to_end(node)
        return points


class SortedSource:
    """Sorts a LAS or LAZ file into one file of raw records per tile, then reads those.

    Args:
        path: The file.
        grid: The tiles.
        folder: Empty folder for the sorted records.
    """

    def __init__(self, path: Path, grid: Grid, folder: Path):
        self.grid, self.folder = grid, folder
        self.counts: dict[int, int] = {}
        with open_las(path) as reader:
            self.header = reader.header
            self.strings = header_strings(path, self.header)
            self._record = self.header.point_format.dtype()
            check_free_space(folder, self.header.point_count * self._record.itemsize)
            for points in read_chunks(reader):
                self._append(points.array)

    def _append(self, points: Array) -> None:
        pos = horizontal(points, self.header)
        cell = self.grid.cell(pos[:, 0], pos[:, 1])
        order = np.argsort(cell, kind="stable")
        found, first = np.unique(cell[order], return_index=True)
        for number, rows in zip(found.tolist(), np.split(order, first[1:]), strict=True):
            with open(self._file(number), "ab") as file:
                file.write(points[rows].tobytes())
            self.counts[number] = self.counts.get(number, 0) + len(rows)

    def _file(self, cell: int) -> Path:
        return self.folder / f"{cell}.bin"

    def cells(self) -> Iterator[int]:
        """Yield the tiles that have points."""
        yield from sorted(self.counts)

    def read(self, low: Array, high: Array, most: int) -> Array | None:
        """Return the point records in a box; ``None`` if there are more than ``most``."""
        found: list[Array] = [np.empty(0, self._record)]
        count = 0
        for cell in self.grid.cells_in(low, high):
            if cell not in self.counts:
                continue
            with open(self._file(cell), "rb") as file:
                while raw := file.read(CHUNK * self._record.itemsize):
                    points = np.frombuffer(raw, self._record)
                    found.append(_in_box(points, self.header, low, high))
                    count += len(found[-1])
                    if count > most:
                        return None
        return np.concatenate(found)


def check_free_space(folder: Path, needed: int) -> None:
    """Raise if a disk has less room than needed."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"Expected {needed / 1e9:.1f} GB of free space in '{folder}' to sort the points into "
            f"tiles (got {free / 1e9:.1f} GB)",
        )


@contextmanager
def open_source(path: Path, make_grid: Any, beside: Path) -> Iterator[tuple[TileSource, Grid]]:
    """Open a LAS, LAZ or COPC file for reading by the box.

    Args:
        path: The file.
        make_grid: Makes the grid from the header.
        beside: Output file; sorted records lie in a hidden folder beside it until the end.
    """

    def read_grid(name: Path) -> Grid:
        with open_las(name) as reader:
            header = reader.header
            if header.point_count == 0:
                raise ValueError("the file has no points")
            return make_grid(header)

    what = "a point cloud in the format LAS, LAZ or COPC"
    grid = read_file(path, read_grid, what)
    with ExitStack() as stack:
        if is_copc(path):
            source: TileSource = read_file(path, lambda name: CopcSource(name, grid), what)
        else:
            folder = stack.enter_context(_sorting_folder(beside))
            source = read_file(path, lambda name: SortedSource(name, grid, folder), what)
        yield source, grid


@contextmanager
def _sorting_folder(beside: Path) -> Iterator[Path]:
    """Make a folder that is removed at the end; remove those that killed processes left behind."""
    prefix = f".{beside.name}.tiles."
    beside.parent.mkdir(parents=True, exist_ok=True)
    for old in beside.parent.glob(f"{prefix}*"):
        with suppress(OSError), open(old / "lock", "rb+") as file:
            if lock_file(file.fileno()):
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(mkdtemp(prefix=prefix, dir=beside.parent))
    try:
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            lock_file(descriptor)
            yield folder
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
