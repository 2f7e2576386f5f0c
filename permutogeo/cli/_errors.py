"""What the commands share: errors as one line, and files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


@contextmanager
def kind_errors() -> Iterator[None]:
    """Say what is wrong in one line on standard error, and end with exit code 1."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write to beside ``path``, which takes its place only once it is complete."""
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file to write to (got the folder '{path}')")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Expected an existing folder to write to (got '{path.parent}')")
    handle, name = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
        # A temporary file is the owner's alone; what was asked for has the usual rights.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
