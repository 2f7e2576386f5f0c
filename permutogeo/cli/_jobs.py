"""Which file goes where: inputs, files or folders, and what is written for each."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from permutogeo.cli._geometry import READABLE, WRITABLE
from permutogeo.data._files import suffix_of

# What a folder may hold beside meshes and clouds; such a file counts where it is named.
ANYTHING = (".txt", ".npy", ".npz")


@dataclass(frozen=True)
class Job:
    """A file to read, the one to write, and perhaps a page about both."""

    source: Path
    target: Path
    report: Path | None = None

    @property
    def written(self) -> list[Path]:
        """All files that are written."""
        pages = [] if self.report is None else [self.report, self.picture]
        return [self.target, *pages]

    @property
    def picture(self) -> Path:
        """Beside the page."""
        assert self.report is not None
        return self.report.with_suffix(".png")


def files_in(folder: Path, *, deep: bool = False) -> list[Path]:
    """The meshes and clouds of a folder, by name."""
    kinds = [suffix for suffix in READABLE if suffix not in ANYTHING]
    found = [p for p in (folder.rglob("*") if deep else folder.iterdir()) if p.is_file()]
    found = [path for path in found if path.suffix.lower() in kinds]
    if not found:
        raise ValueError(
            f"Expected files of the kinds {', '.join(kinds)} in '{folder}' (found none)"
        )
    return sorted(found)


def plan(
    inputs: list[Path], output: Path, report: Path | None, others: Iterable[Path]
) -> list[Job]:
    """One job for each file; raises before anything is done if that cannot go well.

    Args:
        inputs: Files and folders.
        output: The file to write, or the folder for several.
        report: The page to write, or the folder for several.
        others: Files that are read too, and must not be written.
    """
    sources = [file for path in inputs for file in (files_in(path) if path.is_dir() else [path])]
    several = len(inputs) > 1 or any(path.is_dir() for path in inputs)
    if several or output.is_dir():
        _check_folder(output, WRITABLE)
        targets = [output / source.name for source in sources]
    else:
        check_file(output, WRITABLE)
        targets = [output]
    reports: list[Path | None] = [None] * len(sources)
    if report is not None and several:
        _check_folder(report, (".html", ".htm"))
        reports = [report / f"{source.name}.html" for source in sources]
    elif report is not None:
        check_file(report, (".html", ".htm"))
        reports = [report]
    jobs = [Job(*files) for files in zip(sources, targets, reports, strict=True)]
    _check_places(jobs, [*sources, *others])
    return jobs


def _check_folder(path: Path, suffixes: Iterable[str]) -> None:
    if not path.is_dir() and (path.exists() or path.suffix.lower() in suffixes):
        raise ValueError(f"Expected a folder to write several files to (got '{path}')")


def check_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise unless a file of one of these kinds can be put there."""
    suffix_of(path, set(suffixes))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Expected an existing folder to write to (got '{path.parent}')")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"Expected a folder that may be written to (got '{path.parent}')")


def _check_places(jobs: list[Job], read: list[Path]) -> None:
    """Nothing that is read is written, and nothing is written twice."""
    taken = {_place(path): path for path in read}
    for job in jobs:
        for path in job.written:
            other = taken.get(_place(path))
            if other is not None:
                raise ValueError(
                    f"Expected to write to another place than '{other}' (got '{path}')"
                )
            taken[_place(path)] = path


def _place(path: Path) -> object:
    """What tells files apart, whatever their names; links lead to the same place."""
    if path.exists():
        status = path.stat()
        return status.st_dev, status.st_ino
    return path.resolve()
