"""``permutogeo bench``: benchmarks against other libraries."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from permutogeo.cli.console import note, report_errors


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks to run; by default all."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, as a check.")] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--set",
            help="With 'denoising': a folder with the folders 'clean' (or 'original') and 'noisy'; "
            "noisy files are named after clean ones (block_n2.obj, block.obj). With 'clouds': a "
            "folder of meshes, from which points are sampled.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the results of 'denoising --set'.")
    ] = Path("denoising-results"),
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Folder for the tables as JSON (docs/runs/README.md)."),
    ] = None,
) -> None:
    """Time permutogeo beside other libraries.

    Benchmarks: bilateral, crf, building, convolution, paper, threads, scaling, memory, startup,
    distributed, operators, denoising, clouds, pictures, spconv, tiles, seams, steps, gpu,
    occupancy, roofline, solver, encoding, attention. Libraries that are not installed are left
    out; install them with: pip install 'permutogeo[bench]'

    With --set, 'denoising' compares ours with Open3D, trimesh, meshlib and meshsdfilter-tools
    (those that are installed) on a folder of clean and noisy meshes, and writes a table, a page
    and pictures. 'clouds' follows the protocol of PU-Net on the meshes of the folder.
    """
    from permutogeo.benchmarks import BENCHMARKS, run

    unknown = [name for name in names or () if name not in BENCHMARKS]
    if unknown:
        raise typer.BadParameter(
            f"Expected some of {', '.join(BENCHMARKS)} (got {', '.join(unknown)})",
            param_hint="NAMES",
        )
    if pairs is not None:
        with report_errors():
            _run_on_folder(names or ["all"], pairs, output, quick, record)
        return
    chosen = names or list(BENCHMARKS)
    left_out = []
    with report_errors():
        for name in chosen:
            try:
                run([name], quick, record)
            except ModuleNotFoundError as error:
                note(
                    f"Left out '{name}', which needs {error.name}: pip install 'permutogeo[bench]'"
                )
                left_out.append(name)
            except ImportError as error:  # of ours, and says what to install
                note(f"Left out '{name}'. {error}")
                left_out.append(name)
    if len(left_out) == len(chosen):
        raise typer.Exit(1)


def _run_on_folder(
    names: list[str], folder: Path, output: Path, quick: bool, record: Path | None
) -> None:
    """Run the benchmark that takes a folder of the user's meshes."""
    from permutogeo.benchmarks import record_tables
    from permutogeo.benchmarks.clouds import run_meshes
    from permutogeo.benchmarks.denoising_set import run_set

    calls = {"denoising": partial(run_set, folder, output), "clouds": partial(run_meshes, folder)}
    if len(names) != 1 or names[0] not in calls:
        raise typer.BadParameter(
            f"Expected the benchmark 'denoising' or 'clouds' with --set (got {', '.join(names)})"
        )
    call = calls[names[0]]
    if record is None:
        call(quick)
    else:
        command = f"permutogeo bench {names[0]} --set {folder.name}"
        record_tables(f"{names[0]}_set", call, quick, record, command)
