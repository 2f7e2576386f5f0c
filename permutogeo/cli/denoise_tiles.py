"""Clouds that do not fit into memory, for ``permutogeo denoise``: tiles, here or on a cluster."""

import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from permutogeo.cli.denoise_files import DenoiseOptions, prepared
from permutogeo.cli.paths import LAS_SUFFIXES, DenoiseJob
from permutogeo.cluster import fingerprint, map_files
from permutogeo.data.files import read_file, replacing, suffix_of
from permutogeo.data.formats.las import open_las
from permutogeo.tiles import default_memory, map_tiles, merge_tiles, split_tiles

# Measured for the learned denoiser (about 3 kB), with half as much again for safety.
BYTES_PER_POINT = 4500
# Default margin in mean distances between points.
MARGIN_SPACINGS = 20.0
# Fewer points than neighbors of a normal are left as they are.
FEWEST_POINTS = 17


@dataclass(frozen=True)
class TileOptions:
    """Tiles as given on the command line.

    Args:
        memory: Working memory in bytes; ``None`` for a quarter of the machine's.
        size: Side of a tile; ``None`` chooses it by the memory.
        margin: Width of the margin; ``None`` for 20 mean distances between points.
    """

    memory: int | None = None
    size: float | None = None
    margin: float | None = None

    def applies_to(self, path: Path) -> bool:
        """Return whether a file is worked in tiles: if a size is given, or if it does not fit."""
        if not path.name.lower().endswith(LAS_SUFFIXES):
            return False
        if self.size is not None:
            return True
        memory = default_memory() if self.memory is None else self.memory
        return _survey(path)[0] * BYTES_PER_POINT > memory

    def margin_of(self, path: Path) -> float:
        """Return the margin for a file."""
        if self.margin is not None:
            return self.margin
        count, area = _survey(path)
        return MARGIN_SPACINGS * math.sqrt(area / max(count, 1))


def _survey(path: Path) -> tuple[int, float]:
    """Return the number of points and the horizontal area of the bounds."""

    def read(name: Path) -> tuple[int, float]:
        with open_las(name) as reader:
            header = reader.header
            extent = np.asarray(header.maxs[:2]) - np.asarray(header.mins[:2])
            return int(header.point_count), float(np.prod(np.maximum(extent, 0)))

    return read_file(path, read, "a point cloud in the format LAS, LAZ or COPC")


def check_tiled(job: DenoiseJob) -> None:
    """Raise if a job cannot be worked in tiles."""
    if job.report is not None:
        raise ValueError(f"'{job.source}': Expected no --report for a cloud worked in tiles")
    suffix_of(job.target, (".las", ".laz"))


def denoise_in_tiles(
    job: DenoiseJob,
    options: DenoiseOptions,
    tiles: TileOptions,
    on_progress: Callable[[float], None],
) -> dict[str, Any]:
    """Denoise one file tile by tile; return what was done."""
    check_tiled(job)
    options = prepared(options)

    def clean(data: Data) -> Data:
        few = len(data["pos"]) < FEWEST_POINTS
        return data if few else options.denoise(data, lambda _: None)[0]

    margin = tiles.margin_of(job.source)
    run = map_tiles(
        clean,
        job.source,
        tiles.size,
        margin,
        job.target,
        memory=tiles.memory,
        bytes_per_point=BYTES_PER_POINT,
        on_progress=on_progress,
    )
    size = f"{run.written:,} points in {run.tiles:,} tiles of {run.size:.4g}"
    return _facts(job, f"{size} with a margin of {margin:.4g}", run.seconds)


def _facts(job: DenoiseJob, size: str, seconds: float) -> dict[str, Any]:
    """Return what was done, in the form of ``denoise_files.run_job``."""
    paths = {"input": str(job.source), "output": str(job.target), "report": None}
    return {**paths, "size": size, "seconds": round(seconds, 3), "errors": {}}


@dataclass(frozen=True)
class TileWork:
    """Denoises one tile file on a worker."""

    options: DenoiseOptions

    def __call__(self, job: DenoiseJob) -> None:
        from permutogeo.data import from_point_cloud, to_point_cloud

        data = from_point_cloud(job.source)
        options = prepared(self.options)
        small = len(data["pos"]) < FEWEST_POINTS
        result = data if small else options.denoise(data, lambda _: None)[0]
        to_point_cloud(result, job.target)


def denoise_tiles_on_cluster(
    job: DenoiseJob,
    options: DenoiseOptions,
    tiles: TileOptions,
    scheduler: str | None,
    resume: bool,
    worker_memory: int | None,
    on_progress: Callable[[float], None],
) -> dict[str, Any]:
    """Split a file into tiles, denoise them on the workers and join them; return what was done.

    The tiles lie in a hidden folder beside the output until it is complete, so that a run that
    was stopped goes on with ``--resume``.
    """
    check_tiled(job)
    start = time.perf_counter()
    folder = job.target.parent / f".{job.target.name}.parts"
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    files = _split(job.source, folder / "in", tiles)
    jobs = [DenoiseJob(path, folder / "out" / path.name) for path in files]
    report = map_files(
        TileWork(options),
        jobs,
        folder / "out",
        scheduler=scheduler,
        settings=options.as_table(),
        resume=resume,
        memory=worker_memory,
        on_done=lambda job, result, error, fraction: on_progress(fraction),
    )
    if report.failed:
        reason = report.failed[0][1]
        raise RuntimeError(
            f"'{job.source}': {len(report.failed)} of {len(jobs)} tiles failed, such as {reason}; "
            "--resume goes on from here"
        )
    count = merge_tiles([each.target for each in jobs], job.target)
    shutil.rmtree(folder, ignore_errors=True)
    seconds = time.perf_counter() - start
    return _facts(job, f"{count:,} points in {len(jobs):,} tiles", seconds)


def _split(source: Path, folder: Path, tiles: TileOptions) -> list[Path]:
    """Split a file into tiles, unless an earlier run has done so."""
    plan = {"source": fingerprint(source), "tiles": asdict(tiles)}
    record = folder / "split.json"
    if record.is_file():
        found = json.loads(record.read_text())
        if found["plan"] == plan:
            return [folder / name for name in found["files"]]
    shutil.rmtree(folder, ignore_errors=True)
    files = split_tiles(
        source,
        folder,
        tiles.size,
        tiles.margin_of(source),
        memory=tiles.memory,
        bytes_per_point=BYTES_PER_POINT,
    )
    with replacing(record) as temporary:
        temporary.write_text(json.dumps({"plan": plan, "files": [path.name for path in files]}))
    return files
