"""What the commands share."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def kind_errors() -> Iterator[None]:
    """Say what is wrong in one line on standard error, and end with exit code 1."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
