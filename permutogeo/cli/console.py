"""Output and errors of the commands: one line each, and none after a pipe is closed."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

# Seconds between two lines of progress without a terminal.
INTERVAL = 10.0
# Errors of the input rather than of the program: reported in one line, without a traceback.
REPORTED = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError)


def say(text: str) -> None:
    """Print a line to standard output; ignore that its reader has gone (``| head -1``)."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        _discard_output()


def note(text: str) -> None:
    """Print a line to standard error: what is being done, or a warning."""
    typer.echo(text, err=True)


def note_loading() -> None:
    """Say that torch is being imported, which takes seconds."""
    if "torch" not in sys.modules:
        note("Loading …")


def note_compiling() -> None:
    """Say that kernels are compiled if the kernel cache is empty, which takes about a minute."""
    from permutogeo.runtime import bridge

    cache = Path(bridge.versions()["kernel_cache_dir"])
    if not any(path.is_dir() for path in cache.glob("*")):
        note("Compiling kernels for their first use, which takes about a minute …")


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error into one line on standard error and exit code 1."""
    try:
        yield
    except BrokenPipeError as error:
        _discard_output()
        raise typer.Exit(0) from error
    except typer.Exit:  # a RuntimeError, too
        raise
    except REPORTED as error:
        fail_with(error)


def fail_with(error: Exception) -> NoReturn:
    """Print the error in one line and exit with code 1."""
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: the interpreter would try again at exit
        _discard_output()
    note(f"Error: {one_line(error)}")
    raise typer.Exit(1) from error


def one_line(error: Exception) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__


def _discard_output() -> None:
    """Send further output nowhere: the interpreter flushes it again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[float], None]]:
    """Show a bar if standard error is a terminal, otherwise a line every ten seconds.

    ``TTY_INTERACTIVE=0`` counts as no terminal, for notebooks.

    Yields:
        A function to call with the completed fraction.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal or not console.is_interactive:
        yield _print_progress(label)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=1.0)
        yield lambda fraction: progress.update(task, completed=fraction)


def _print_progress(label: str) -> Callable[[float], None]:
    last = time.monotonic()

    def update(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > INTERVAL:
            last = time.monotonic()
            note(f"{label}: {fraction:.0%}")

    return update
