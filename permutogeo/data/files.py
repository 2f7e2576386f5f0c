"""File access: checks of paths, errors that name the file, atomic writes."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

T = TypeVar("T")

_LONGEST_NAME = 255  # bytes, on all usual file systems
_OLD_SECONDS = 60.0
_COPC_SUFFIX = ".copc.laz"
# Temporary files of this process, removed if it is terminated.
_open_temporaries: set[Path] = set()


def file_error(path: Path, problem: str) -> ValueError:
    """Return the error for a file that cannot be used."""
    return ValueError(f"'{path}': {problem}")


def full_suffix(path: Path) -> str:
    """Return the suffix of ``path`` as written; that of COPC files has two parts."""
    is_copc = path.name.lower().endswith(_COPC_SUFFIX) and len(path.name) > len(_COPC_SUFFIX)
    return path.name[-len(_COPC_SUFFIX) :] if is_copc else path.suffix


def suffix_of(path: Path, suffixes: Collection[str]) -> str:
    """Return the lower-case suffix of ``path``; raises if it is not one of ``suffixes``."""
    suffix = full_suffix(path).lower()
    if suffix not in suffixes:
        suffix = path.suffix.lower()
    if suffix not in suffixes:
        expected = f"one of {', '.join(sorted(suffixes))}"
        raise file_error(path, f"Expected {expected} (got '{path.suffix}')")
    return suffix


def _check_regular(path: Path, target: Path) -> None:
    if not target.is_file():
        kind = "directory" if target.is_dir() else "special file"
        raise file_error(path, f"Expected a file (got a {kind})")


def check_readable(path: Path) -> None:
    """Raise if ``path`` is missing, not a regular file, or empty."""
    if not path.exists():
        raise FileNotFoundError(f"'{path}': Expected a file (there is none of that name)")
    _check_regular(path, path)
    if path.stat().st_size == 0:
        raise file_error(path, "Expected data (the file is empty)")


def read_file(path: Path, reader: Callable[[Path], T], what: str) -> T:
    """Call ``reader(path)``; any error of a parser becomes one that names the file.

    Args:
        path: File to read. It must exist and must not be empty.
        reader: Parser of the file.
        what: Description of the expected content, for the message.
    """
    check_readable(path)
    try:
        return reader(path)
    except ImportError:
        raise
    except MemoryError as error:  # a header may claim any size
        raise ValueError(f"'{path}': Expected {what} that fits in memory ({error})") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise  # not the fault of this file
        reason = str(error) or type(error).__name__
        if reason.startswith(f"'{path}'"):
            raise
        raise ValueError(f"'{path}': Expected {what} (got a damaged file: {reason})") from error


def _temporary_name(target: Path, token: str) -> str:
    """Return a hidden name with the suffix of ``target`` that is not too long for a file system."""
    suffix = full_suffix(target)
    room = _LONGEST_NAME - len(os.fsencode(f"..{token}{suffix}"))
    stem = os.fsencode(target.name[: len(target.name) - len(suffix)])[:room].decode(errors="ignore")
    return f".{stem}.{token}{suffix}"


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files for ``target`` that killed processes left behind.

    A living writer holds a lock on its temporary file; the age protects files that are not locked
    yet, or that a writer replaced by another of the same name.
    """
    if fcntl is None:
        return
    mark = "\0"
    before, after = _temporary_name(target, "0" * 16).replace("0" * 16, mark, 1).split(mark)
    pattern = re.compile(re.escape(before) + "[0-9a-f]{16}" + re.escape(after))
    try:
        names = [entry.name for entry in os.scandir(target.parent) if entry.name[:1] == "."]
    except OSError:
        return
    for path in (target.with_name(name) for name in names if pattern.fullmatch(name)):
        try:
            if time.time() - path.stat().st_mtime < _OLD_SECONDS:
                continue
            with open(path, "rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except OSError:
            continue  # another user's, locked, or gone


def _terminate(number: int, frame: object) -> None:
    """Remove the temporary files, then end the process as the signal would have."""
    for path in list(_open_temporaries):
        path.unlink(missing_ok=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextmanager
def _removed_on_sigterm(path: Path) -> Iterator[None]:
    """Remove ``path`` if SIGTERM ends the process; a handler of the user's stays in charge."""
    _open_temporaries.add(path)
    main = threading.current_thread() is threading.main_thread()
    install = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if install:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if install and signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _open_temporaries.discard(path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path that replaces ``path`` on success.

    The temporary file lies in the same folder and has the same suffix, by which writers choose the
    format. If the block raises or the process is terminated, it is removed and ``path`` stays as
    it was; what a killed process left behind is removed by the next write to ``path``.
    """
    target = Path(os.path.realpath(path))  # a link stays a link; its target is replaced
    if target.exists():
        _check_regular(path, target)
    _remove_leftovers(target)
    temporary = target.with_name(_temporary_name(target, secrets.token_hex(8)))
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise type(error)(f"'{path}': Expected a place to write to ({reason})") from error
    with _removed_on_sigterm(temporary):
        try:
            lock_file(descriptor)
            yield temporary
            if target.exists():
                shutil.copymode(target, temporary)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)


def lock_file(descriptor: int) -> bool:
    """Mark an open file as in use; returns ``False`` if another process has done so.

    Where the file system has no locks, nothing is marked.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
