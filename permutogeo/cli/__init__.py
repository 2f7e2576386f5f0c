"""The ``permutogeo`` command line: each subcommand parses, calls the library and writes.

Commands check their arguments and paths before they import torch, so that help and mistakes are
answered at once.
"""

from typing import Annotated

import typer

from permutogeo import __version__
from permutogeo.cli.bench import bench
from permutogeo.cli.denoise import denoise
from permutogeo.cli.filter import filter_image
from permutogeo.cli.info import info
from permutogeo.cli.options import PlainCommand
from permutogeo.cli.propagate import propagate
from permutogeo.cli.segment import segment
from permutogeo.cli.selftest import selftest
from permutogeo.cli.train import train
from permutogeo.cli.upsample import upsample
from permutogeo.cli.warmup import warmup

app = typer.Typer(
    help="Sparse high-dimensional filtering on the permutohedral lattice.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    # Plain help: markup would swallow brackets and keep the line breaks of docstrings.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command(cls=PlainCommand)(denoise)
app.command("filter", cls=PlainCommand)(filter_image)
app.command(cls=PlainCommand)(upsample)
app.command(cls=PlainCommand)(segment)
app.command(cls=PlainCommand)(propagate)
app.add_typer(train, name="train")
app.command(cls=PlainCommand)(info)
app.command(cls=PlainCommand)(warmup)
app.command(cls=PlainCommand)(bench)
app.command(cls=PlainCommand)(selftest)


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
