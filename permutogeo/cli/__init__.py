"""The ``permutogeo`` command: each subcommand parses, calls the library and writes.

Heavy imports stand inside the commands, so that ``permutogeo --help`` answers at once.
"""

from typing import Annotated

import typer

from permutogeo._version import __version__
from permutogeo.cli._denoise import denoise
from permutogeo.cli._engine import bench, info, warmup
from permutogeo.cli._filter import filter_image
from permutogeo.cli._segment import segment
from permutogeo.cli._train import train
from permutogeo.cli._upsample import upsample

app = typer.Typer(
    help="Sparse high-dimensional filtering on the permutohedral lattice.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
for command in (denoise, segment, upsample, info, warmup, bench):
    app.command()(command)
app.command("filter")(filter_image)
app.add_typer(train, name="train")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"permutogeo {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line."""
    app()
