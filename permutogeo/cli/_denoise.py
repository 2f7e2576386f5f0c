"""``permutogeo denoise``: meshes and point clouds without their noise."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from permutogeo.cli._errors import kind_errors


class Method(str, Enum):
    """How to denoise."""

    learned = "learned"
    gaussian = "gaussian"
    smooth = "smooth"


class Axis(str, Enum):
    """The axis that points up."""

    x = "x"
    y = "y"
    z = "z"


def denoise(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Meshes or point clouds (PLY, OBJ, STL, OFF, …), or folders of them."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write, or the folder for several.")
    ],
    method: Annotated[
        Method,
        typer.Option(
            help="A learned filter of normals; a Gaussian filter of displacements over intrinsic "
            "coordinates; or plain smoothing of normals."
        ),
    ] = Method.learned,
    strength: Annotated[
        float, typer.Option(help="Below 1: part of the way. Above 1: wider filters.")
    ] = 1.0,
    iterations: Annotated[
        int | None, typer.Option(help="Stages of the filter, or steps of smoothing.")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="Of the learned filter: a file of 'permutogeo train denoise'.")
    ] = "default",
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda:0, …")] = "cpu",
    report: Annotated[
        Path | None,
        typer.Option(
            help="Also write a page (.html) that shows what was done, and a PNG beside it; a "
            "folder for several inputs."
        ),
    ] = None,
    ground_truth: Annotated[
        Path | None, typer.Option(help="The clean mesh, to measure errors against.")
    ] = None,
    up: Annotated[Axis, typer.Option(help="The axis that points up in the report.")] = Axis.y,
) -> None:
    """Remove noise from meshes and point clouds.

    Colors, texture coordinates, materials and other attributes are kept.
    Damaged meshes are mended, and a warning says how. Inputs are never
    changed; an output appears whole or not at all. The exit code is 0 if
    all went well, 1 if some file could not be done.

    Examples:

    permutogeo denoise scan.ply -o clean.ply

    permutogeo denoise scan.obj -o clean.obj --report report.html --strength 0.5

    permutogeo denoise scans/ extra.stl -o cleaned/ --method smooth
    """
    with kind_errors():
        from permutogeo.cli._denoise_run import Settings, run_all
        from permutogeo.cli._jobs import plan

        if ground_truth is not None and (len(inputs) > 1 or inputs[0].is_dir()):
            raise ValueError("Expected one input file with --ground-truth (got several)")
        others = [] if ground_truth is None else [ground_truth]
        jobs = plan(inputs, output, report, others)
        settings = Settings(method.value, strength, iterations, weights, device)
        failed = run_all(jobs, settings, ground_truth, up.value)
    if failed and len(jobs) > 1:
        names = ", ".join(str(path) for path in failed)
        typer.echo(f"{len(failed)} of {len(jobs)} files could not be done: {names}", err=True)
    if failed:
        raise typer.Exit(1)
