"""``permutogeo bench``: benchmarks against other libraries."""

from typing import Annotated

import typer

from permutogeo.cli.console import note, report_errors


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks to run; by default all."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, as a check.")] = False,
) -> None:
    """Time permutogeo beside other libraries.

    Benchmarks: bilateral, crf, building, convolution, paper, threads, scaling, memory, startup,
    operators, denoising, pictures, solver, encoding. Libraries that are not installed are left
    out; install them with: pip install 'permutogeo[bench]'
    """
    from permutogeo.benchmarks import BENCHMARKS, run

    unknown = [name for name in names or () if name not in BENCHMARKS]
    if unknown:
        raise typer.BadParameter(
            f"Expected some of {', '.join(BENCHMARKS)} (got {', '.join(unknown)})",
            param_hint="NAMES",
        )
    chosen = names or list(BENCHMARKS)
    left_out = []
    with report_errors():
        for name in chosen:
            try:
                run([name], quick)
            except ModuleNotFoundError as error:
                note(
                    f"Left out '{name}', which needs {error.name}: pip install 'permutogeo[bench]'"
                )
                left_out.append(name)
    if len(left_out) == len(chosen):
        raise typer.Exit(1)
