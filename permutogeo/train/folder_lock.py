"""Lock of a run's folder, so that two trainers never write to the same one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
# Folders locked by this process: locks of the system tell only processes apart.
_held: set[Path] = set()


@contextmanager
def lock_folder(folder: Path | None) -> Iterator[None]:
    """Hold the lock of a folder during the block; raises if another trainer holds it.

    The system releases the lock when the process ends, however it ends.
    """
    if folder is None or fcntl is None:
        yield
        return
    key = folder.resolve()
    if key in _held:
        raise _in_use(folder)
    file = _acquire(folder)
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        (folder / NAME).unlink(missing_ok=True)
        os.close(file)


def _acquire(folder: Path) -> int:
    """Return the locked file."""
    while True:
        file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            # Not flock: its locks are inherited by workers, which outlive a killed process.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(folder / NAME)):
                return file
        except FileNotFoundError:
            pass  # its last holder removed the file in between
        except OSError as error:
            os.close(file)
            raise _in_use(folder) from error
        os.close(file)


def _in_use(folder: Path) -> ValueError:
    return ValueError(f"'{folder}': Expected a folder that no other trainer is writing to")
