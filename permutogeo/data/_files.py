"""Reading and writing of files: errors that name the file, and writing whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

T = TypeVar("T")


def fail(path: Path, problem: str) -> NoReturn:
    """Raise the error of a file that cannot be used."""
    raise ValueError(f"'{path}': {problem}")


def suffix_of(path: Path, suffixes: Collection[str]) -> str:
    """The lower-case suffix of ``path``, if it is one of ``suffixes``."""
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        fail(path, f"Expected one of {', '.join(sorted(suffixes))} (got '{path.suffix}')")
    return suffix


def check_readable(path: Path) -> None:
    """Raise if ``path`` is missing, no file, or empty."""
    if not path.exists():
        raise FileNotFoundError(f"'{path}': Expected a file (there is none of that name)")
    if not path.is_file():
        fail(path, f"Expected a file (got a {'directory' if path.is_dir() else 'special file'})")
    if path.stat().st_size == 0:
        fail(path, "Expected data (the file is empty)")


def read_with(path: Path, reader: Callable[[Path], T], what: str) -> T:
    """Call ``reader`` and turn whatever a parser raises into one error that names the file."""
    check_readable(path)
    try:
        return reader(path)
    except ImportError:
        raise
    except MemoryError as error:  # a header may claim any size
        raise ValueError(f"'{path}': Expected {what} that fits in memory ({error})") from error
    except Exception as error:
        reason = str(error) or type(error).__name__
        if reason.startswith(f"'{path}'"):
            raise
        raise ValueError(f"'{path}': Expected {what} (got a damaged file: {reason})") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file beside ``path`` that takes its place only if the block succeeds."""
    target = Path(os.path.realpath(path))  # a link stays a link, its target is replaced
    if target.exists() and not target.is_file():
        fail(path, f"Expected a file (got a {'directory' if target.is_dir() else 'special file'})")
    # The suffix stays: writers choose the format by it.
    temporary = target.with_name(f".{target.stem[:64]}.{secrets.token_hex(8)}{target.suffix}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise type(error)(f"'{path}': Expected a place to write to ({reason})") from error
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
