"""``permutogeo denoise``: denoising of meshes and point clouds."""

import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from permutogeo.cli.console import note, note_loading, report_errors
from permutogeo.cli.options import (
    ClusterOptions,
    Device,
    Resume,
    Scheduler,
    WorkerMemory,
    check_positive,
    parse_size,
)
from permutogeo.cli.paths import LAS_SUFFIXES, check_output, check_weights, plan_denoising


class Method(str, Enum):
    """Denoising methods."""

    learned = "learned"
    gaussian = "gaussian"
    smooth = "smooth"


class Axis(str, Enum):
    """Coordinate axes."""

    x = "x"
    y = "y"
    z = "z"


# Limits of the options: larger values take hours and smooth everything away.
MOST_STRENGTH, MOST_ITERATIONS = 100.0, 10_000
# Numbers of stages or steps above which a warning says that it takes long.
MANY_STAGES, MANY_STEPS = 20, 200

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT",
        help="Meshes or point clouds (PLY, OBJ, STL, OFF, GLB, PCD, XYZ, NPY, LAS, LAZ, COPC, "
        "E57), or folders, which are searched with their subfolders.",
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="Output file, or a folder (a name without extension). Missing folders are created; "
        "files of an input folder keep their places in it.",
    ),
]
MethodOption = Annotated[
    Method,
    typer.Option(
        help="learned: cascade of learned normal filters; gaussian: Gaussian filter of "
        "displacements over intrinsic coordinates (positions nearer than those of smooth, normals "
        "alike); smooth: smoothing of normals. Only learned leaves clean meshes alone."
    ),
]
Strength = Annotated[
    float,
    typer.Option(
        help="Below 1: fraction of the displacement to apply. Above 1 (at most 100): factor by "
        "which filters are wider."
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(help="Number of learned stages (default: all) or smoothing steps (default 10)."),
]
Weights = Annotated[
    str,
    typer.Option(
        help="Weights of the learned filter: 'default', or a file written by 'permutogeo train "
        "denoise'."
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="Also write a report page (.html) with a picture (.png) beside it, or a folder of "
        "them."
    ),
]
GroundTruth = Annotated[
    Path | None, typer.Option(help="Clean mesh or cloud to measure errors against.")
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object per file: noise estimate, displacement, parts left alone and "
        "why, seconds, errors.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Working memory, such as 4GB (by default a quarter of the machine's). LAS, LAZ and "
        "COPC files that need more are denoised in tiles.",
    ),
]
TileSize = Annotated[
    float | None,
    typer.Option(
        help="Side of the tiles in the units of the file; by default chosen by the memory. Given, "
        "it denoises LAS, LAZ and COPC files of any size in tiles."
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(help="Width of the margin of tiles; by default 20 mean distances of points."),
]
Up = Annotated[Axis, typer.Option(help="Axis that points up in the report.")]


def denoise(
    inputs: Inputs,
    output: Output,
    method: MethodOption = Method.learned,
    strength: Strength = 1.0,
    iterations: Iterations = None,
    weights: Weights = "default",
    device: Device = "cpu",
    report: Report = None,
    ground_truth: GroundTruth = None,
    up: Up = Axis.y,
    as_json: AsJson = False,
    memory: Memory = None,
    tile_size: TileSize = None,
    margin: Margin = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
    worker_memory: WorkerMemory = None,
) -> None:
    """Remove noise from meshes and point clouds.

    Colors, texture coordinates, materials and other attributes are kept. Damaged meshes are
    repaired, with a warning. One line per file says how much noise was estimated, how far vertices
    moved, and which parts were left alone since no noise can be told from their shape.
    Inputs are never changed, and a failed run leaves existing outputs in place. The exit code is 0
    if all files were denoised, otherwise 1.

    Examples:

    \b
    permutogeo denoise scan.ply -o clean.ply
    permutogeo denoise scan.obj -o clean.obj --report page.html --strength 0.5
    permutogeo denoise scans/ extra.stl -o cleaned/ --method smooth
    permutogeo denoise country.copc.laz -o clean.laz --memory 6GB
    permutogeo denoise scans/ -o cleaned/ --scheduler local:4 --resume
    """
    with report_errors():
        if ground_truth is not None and (len(inputs) > 1 or inputs[0].is_dir()):
            raise ValueError("Expected one input file with --ground-truth (got several)")
        jobs = plan_denoising(inputs, output, report, ground_truth)
        _check_effort(method, strength, iterations)
        cluster = ClusterOptions.parse(scheduler, resume, worker_memory)
        if ground_truth is not None and (scheduler is not None or resume):
            raise ValueError("Expected no --ground-truth with --scheduler or --resume")
        bytes_of_memory = parse_size("--memory", memory)
        if tile_size is not None:
            check_positive("--tile-size", tile_size)
            for job in jobs:
                if job.source.suffix.lower() in LAS_SUFFIXES:
                    check_output(job.target, (".las", ".laz"))
        if margin is not None:
            check_positive("--margin", margin)
        if method is Method.learned:
            check_weights(weights)
        # Read when torch is loaded. Waiting threads of OpenMP would take a core from ours.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        note_loading()
        from permutogeo.cli.denoise_files import DenoiseOptions
        from permutogeo.cli.denoise_runs import DenoiseRun
        from permutogeo.cli.denoise_tiles import TileOptions

        options = DenoiseOptions(method.value, strength, iterations, weights, device)
        tiles = TileOptions(bytes_of_memory, tile_size, margin)
        folder = output.parent if jobs[0].target == output else output
        run = DenoiseRun(options, tiles, cluster, ground_truth, up.value, as_json)
        failed = run.run(jobs, folder)
    if failed and len(jobs) > 1:
        names = ", ".join(str(path) for path in failed)
        note(f"{len(failed)} of {len(jobs)} files could not be denoised: {names}")
    if failed:
        raise typer.Exit(1)


def _check_effort(method: Method, strength: float, iterations: int | None) -> None:
    """Raise for options that would compute for hours; warn before minutes."""
    if not 0 <= strength <= MOST_STRENGTH:
        expected = f"--strength from 0 to {MOST_STRENGTH:g}"
        raise ValueError(f"Expected {expected} (got {strength:g})")
    if iterations is not None and not 0 <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"Expected --iterations from 0 to {MOST_ITERATIONS:,} (got {iterations})")
    is_learned = method is Method.learned
    count = (iterations or 0) if is_learned else (iterations or 10) * max(strength, 1.0)
    if count > (MANY_STAGES if is_learned else MANY_STEPS):
        what = "stages" if is_learned else "smoothing steps"
        note(f"Warning: {count:,.0f} {what} may take minutes")
