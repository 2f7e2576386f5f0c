"""A function applied to a cloud tile by tile, and tiles as files."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data.fields import Fields, from_data, to_data
from permutogeo.data.files import read_file, replacing, suffix_of
from permutogeo.data.formats.las import LasStream, header_strings, open_las, read_chunks
from permutogeo.data.formats.las_records import (
    STRING_ATTRIBUTES,
    load_laspy,
    records_to_fields,
)
from permutogeo.tiles.grid import Grid, Tile, choose_size, default_memory, points_in_memory
from permutogeo.tiles.sources import TileSource, open_source
from permutogeo.typing import Array

PathLike = str | os.PathLike[str]
INPUTS = (".las", ".laz", ".copc.laz")
# A tree of points: an octree has to be sorted in one piece.
OUTPUTS = (".las", ".laz")
# Bytes of a point in the function of the caller, if they are not given.
BYTES_PER_POINT = 1000
# Divisions of a tile with too many points; more would be points in one place.
_MOST_DIVISIONS = 16
_WHAT = "a point cloud in the format LAS, LAZ or COPC"


@dataclass
class TileRun:
    """What :func:`map_tiles` did.

    Args:
        tiles: Number of tiles with points.
        points: Number of points read, without margins.
        written: Number of points written.
        largest: Number of points of the largest tile with its margin.
        size: Side of a tile.
        seconds: Wall time.
        results: Return values of the function, if there is no output file.
    """

    tiles: int = 0
    points: int = 0
    written: int = 0
    largest: int = 0
    size: float = 0.0
    seconds: float = 0.0
    results: list[Any] = field(default_factory=list)


def map_tiles(
    function: Callable[[Data], Any],
    file: PathLike,
    size: float | None,
    margin: float,
    output: PathLike | None = None,
    *,
    memory: int | None = None,
    bytes_per_point: int = BYTES_PER_POINT,
    on_progress: Callable[[float], None] | None = None,
) -> TileRun:
    r"""Apply a function to a LAS, LAZ or COPC file tile by tile, in bounded memory.

    Tiles are squares in x and y. A tile comes with the points of a margin around it, which are
    read but not written; ``data.core`` is true for the points of the tile itself. COPC files are
    read by spatial query; LAS and LAZ files are sorted into tiles on disk first, in a hidden folder
    beside ``output`` that takes the size of the uncompressed file. Tiles with more points than fit
    into memory are divided.

    Args:
        function: Called with the :class:`~torch_geometric.data.Data` of each tile (positions in
            float64, all attributes of the file). With ``output``, it returns the data to write:
            the same points in the same order, or fewer of them with their ``core``. New attributes
            become dimensions of the output. ``None`` writes nothing.
        file: The cloud.
        size: Side of a tile in the units of the file; ``None`` chooses it by the memory.
        margin: Width of the margin. Filters whose reach is at most ``margin`` give the results of
            the whole cloud (see :func:`lattice_reach`).
        output: LAS or LAZ file, written tile by tile and in place only when it is complete. If
            ``None``, the return values are kept.
        memory: Working memory in bytes; by default a quarter of the machine's.
        bytes_per_point: Memory that ``function`` takes for each point.
        on_progress: Called with the completed fraction in [0, 1].

    Example:
        >>> import tempfile, torch
        >>> from permutogeo.data import from_point_cloud, to_point_cloud
        >>> from permutogeo.tiles import map_tiles
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = to_point_cloud(from_point_cloud(torch.rand(1000, 3)), f"{folder}/in.laz")
        ...     run = map_tiles(lambda data: data, file, 0.5, 0.1, f"{folder}/out.laz")
        >>> run.tiles, run.written
        (4, 1000)
    """
    path = Path(file)
    target = None if output is None else Path(output)
    _check(path, size, margin, target, memory, bytes_per_point)
    run, start = TileRun(), time.perf_counter()
    options = path, size, margin, memory, bytes_per_point
    beside = target or Path(tempfile.gettempdir()) / path.name
    if target is None:
        for _, data in _tiles(*options, beside, run, on_progress):
            run.results.append(function(data))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary, LasStream(temporary) as stream:
            for tile, data in _tiles(*options, target, run, on_progress):
                fields = _core_fields(function(data), data, tile)
                if fields is not None:
                    stream.write(fields)
            if stream.num_points == 0:
                raise ValueError("map_tiles: Expected a function that keeps a point (got none)")
        run.written = stream.num_points
    run.seconds = time.perf_counter() - start
    return run


def _check(
    path: Path,
    size: float | None,
    margin: float,
    target: Path | None,
    memory: int | None,
    bytes_per_point: int,
) -> None:
    """Raise for arguments that cannot be used."""
    suffix_of(path, INPUTS)
    if target is not None:
        suffix_of(target, OUTPUTS)
        if target.name.lower().endswith(".copc.laz"):
            raise ValueError(f"'{target}': Expected .las or .laz for an output written by tiles")
    if not 0 <= margin < math.inf:
        raise ValueError(f"Expected a finite 'margin' of at least 0 (got {margin})")
    if size is not None and not (0 < size < math.inf and size >= margin):
        raise ValueError(f"Expected tiles no smaller than their margin {margin:g} (got {size:g})")
    if memory is not None and memory < 1:
        raise ValueError(f"Expected a positive number of bytes of 'memory' (got {memory})")
    if bytes_per_point < 1:
        raise ValueError(f"Expected a positive 'bytes_per_point' (got {bytes_per_point})")
    if target is not None and target.exists() and target.samefile(path):
        raise ValueError(f"The output '{target}' would overwrite the input '{path}'")


def _tiles(
    path: Path,
    size: float | None,
    margin: float,
    memory: int | None,
    bytes_per_point: int,
    beside: Path,
    run: TileRun,
    on_progress: Callable[[float], None] | None,
) -> Iterator[tuple[Tile, Data]]:
    """Yield each tile with the points of it and of its margin."""
    most = points_in_memory(default_memory() if memory is None else memory, bytes_per_point)

    def make_grid(header: Any) -> Grid:
        low, high = np.asarray(header.mins), np.asarray(header.maxs)
        side = size or choose_size(low, high, header.point_count, margin, most)
        return Grid(low, high, side)

    with open_source(path, make_grid, beside) as (source, grid):
        run.size = grid.size
        pending = [grid.tile(cell) for cell in reversed(list(source.cells()))]
        total = source.header.point_count
        while pending:
            tile = pending.pop()
            low, high = tile.with_margin(margin)
            points = read_file(path, lambda _: source.read(low, high, most), _WHAT)  # noqa: B023
            if points is None:
                _check_division(grid, tile, margin, most)
                pending += reversed(grid.quarter(tile))
                continue
            data = _to_data(points, source, tile, path)
            count = int(data["core"].sum()) if data is not None else 0
            if data is None or count == 0:
                continue
            run.tiles += 1
            run.points += count
            run.largest = max(run.largest, len(points))
            yield tile, data
            if on_progress is not None:
                on_progress(run.points / total)
    if run.points != total:
        raise ValueError(f"'{path}': Expected {total:,} points in all tiles (got {run.points:,})")


def _check_division(grid: Grid, tile: Tile, margin: float, most: int) -> None:
    if grid.side(tile) / 2 < margin or tile.name.count(".") >= _MOST_DIVISIONS:
        raise ValueError(
            f"Expected memory for the points of a tile of side {grid.side(tile):g} with a margin "
            f"of {margin:g} (got room for {most:,}); give more memory or a smaller margin"
        )


def _to_data(points: Array, source: TileSource, tile: Tile, path: Path) -> Data | None:
    """Return the records of a tile as data with the mask ``core``."""
    if len(points) == 0:
        return None
    header = source.header
    record = load_laspy().ScaleAwarePointRecord(
        points, header.point_format, header.scales, header.offsets
    )
    fields = records_to_fields(record)
    fields["core"] = tile.contains(fields["pos"])
    return to_data({**fields, **source.strings}, f"'{path}'", None)


def _core_fields(result: Any, data: Data, tile: Tile) -> Fields | None:
    """Return the points of a result that belong to the tile; ``None`` if there are none."""
    if result is None:
        return None
    if not isinstance(result, Data):
        kind = type(result).__name__
        raise TypeError(f"map_tiles: Expected a function that returns Data (got {kind})")
    core = result.get("core")
    count = len(result["pos"])
    if core is None:
        if count != len(data["pos"]):
            raise ValueError(
                f"map_tiles: Expected {len(data['pos'])} points of tile {tile.name}, or 'core' in "
                f"the result (got {count} points)"
            )
        core = data["core"]
    if len(core) != count:
        raise ValueError(f"map_tiles: Expected {count} rows in 'core' (got {len(core)})")
    kept = core.cpu().bool()
    if not bool(kept.any()):
        return None
    strings = {name: np.array(data[name]) for name in STRING_ATTRIBUTES if name in data}
    fields = from_data(result, "map_tiles")
    fields = {k: v[kept.numpy()] for k, v in fields.items() if k != "core"}
    return {**fields, **strings}


def split_tiles(
    file: PathLike,
    folder: PathLike,
    size: float | None,
    margin: float,
    *,
    memory: int | None = None,
    bytes_per_point: int = BYTES_PER_POINT,
    on_progress: Callable[[float], None] | None = None,
) -> list[Path]:
    """Write the tiles of a LAS, LAZ or COPC file as LAZ files with their margins.

    The dimension ``core`` of the tiles tells the points of the tile from those of its margin;
    :func:`merge_tiles` drops the margins. Between the two, each tile is a file for itself.

    Args:
        file: The cloud.
        folder: Where to write the tiles; it is created.
        size: Side of a tile; ``None`` chooses it by the memory.
        margin: Width of the margin.
        memory: Working memory in bytes; by default a quarter of the machine's.
        bytes_per_point: Memory that will be needed for each point of a tile.
        on_progress: Called with the completed fraction in [0, 1].

    Returns:
        The files of the tiles.
    """
    path, folder = Path(file), Path(folder)
    _check(path, size, margin, None, memory, bytes_per_point)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    options = path, size, margin, memory, bytes_per_point
    for tile, data in _tiles(*options, folder / path.name, TileRun(), on_progress):
        target = folder / f"tile_{tile.name}.laz"
        strings = {name: np.array(data[name]) for name in STRING_ATTRIBUTES if name in data}
        data.core = data.core.to(torch.uint8)
        with replacing(target) as temporary, LasStream(temporary) as stream:
            stream.write({**from_data(data, "split_tiles"), **strings})
        written.append(target)
    return written


def merge_tiles(files: Sequence[PathLike], output: PathLike) -> int:
    """Join tiles of :func:`split_tiles` to one LAS or LAZ file without their margins.

    Args:
        files: The tiles, in the order of the output.
        output: File to write.

    Returns:
        Number of points written.
    """
    target = Path(output)
    suffix_of(target, OUTPUTS)
    with replacing(target) as temporary, LasStream(temporary) as stream:
        for name in files:
            path = Path(name)
            read_file(path, lambda tile: _append_core(tile, stream), _WHAT)
        if stream.num_points == 0:
            raise ValueError("merge_tiles: Expected tiles with points (got none)")
    return stream.num_points


def _append_core(path: Path, stream: LasStream) -> None:
    with open_las(path) as reader:
        strings = header_strings(path, reader.header)
        for points in read_chunks(reader):
            fields = records_to_fields(points)
            if "core" not in fields:
                raise ValueError("no dimension 'core', this is no tile")
            kept = fields.pop("core") != 0
            if kept.any():
                stream.write({**{k: v[kept] for k, v in fields.items()}, **strings})
