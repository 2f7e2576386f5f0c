"""A function over many files: in this process or on a cluster, with a manifest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permutogeo.cluster.dask_pool import open_client, run_on_dask
from permutogeo.cluster.manifest import Manifest


@dataclass(frozen=True)
class FileJob:
    """One file to make from another.

    Args:
        source: The input.
        target: The output, written whole or not at all.
    """

    source: Path
    target: Path


@dataclass
class JobReport:
    """Outcome of :func:`map_files`.

    Args:
        done: Completed jobs.
        skipped: Jobs that an earlier run had completed.
        failed: Jobs with the message of their error.
        seconds: Wall time.
    """

    done: list[FileJob] = field(default_factory=list)
    skipped: list[FileJob] = field(default_factory=list)
    failed: list[tuple[FileJob, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class _TimedJob:
    """Runs a job on a worker; returns its result, its error and its time."""

    function: Callable[[FileJob], Any]

    def __call__(self, job: FileJob) -> tuple[Any, str | None, float]:
        start = time.perf_counter()
        try:
            job.target.parent.mkdir(parents=True, exist_ok=True)
            result, error = self.function(job), None
        except Exception as raised:  # as a value: Dask would print it on each worker
            result, error = None, _describe(job, raised)
        return result, error, time.perf_counter() - start


def map_files(
    function: Callable[[Any], Any],
    jobs: Sequence[FileJob],
    folder: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    memory: int | None = None,
    on_done: Callable[[FileJob, Any, str | None, float], None] | None = None,
) -> JobReport:
    """Run a function over files and record each output in a manifest.

    A failed job does not stop the others. A job whose worker dies is run again on another one.

    Args:
        function: Called with a job; it writes ``job.target`` whole or not at all (see
            :func:`permutogeo.data.to_point_cloud`). For a cluster, it must be picklable: a function
            of a module or a dataclass with ``__call__``.
        jobs: The files. All machines must see them under the same paths.
        folder: Folder of the outputs, for the manifest.
        scheduler: ``"local"`` or ``"local:N"`` for N processes of this machine, the address of a
            Dask scheduler, or ``None`` for this process.
        settings: What the outputs depend on beside the sources, as JSON.
        resume: Skip jobs that the manifest has with the same source, settings and version.
        memory: Memory of a local worker in bytes.
        on_done: Called after each job with the job, the result, the error message if it failed,
            and the completed fraction of all jobs.

    Example:
        See :mod:`permutogeo.cluster`.
    """
    manifest = Manifest(Path(folder), settings)
    report, start = JobReport(), time.perf_counter()
    if resume:
        report.skipped = [job for job in jobs if manifest.is_done(job.source, job.target)]
    skipped = {job.target for job in report.skipped}
    pending = [job for job in jobs if job.target not in skipped]
    if pending:
        outcomes = _outcomes(_TimedJob(function), pending, scheduler, memory)
        for job, (result, message, seconds) in outcomes:
            if message is None:
                manifest.add(job.source, job.target, seconds)
                report.done.append(job)
            else:
                report.failed.append((job, message))
            if on_done is not None:
                finished = len(report.done) + len(report.failed)
                on_done(job, result, message, finished / len(pending))
    report.seconds = time.perf_counter() - start
    return report


def _outcomes(
    function: _TimedJob, jobs: Sequence[FileJob], scheduler: str | None, memory: int | None
) -> Iterator[tuple[FileJob, tuple[Any, str | None, float]]]:
    """Yield each job with its result, its error and its time, in the order of completion."""
    if scheduler is None:
        yield from ((job, function(job)) for job in jobs)
        return
    with open_client(scheduler, memory) as client:
        for job, outcome, error in run_on_dask(client, function, jobs):
            yield job, outcome if error is None else (None, _describe(job, error), 0.0)


def _describe(job: FileJob, error: BaseException) -> str:
    """Return one line that names the file and the reason."""
    if type(error).__name__ == "KilledWorker":
        reason = "its workers died, possibly of a lack of memory"
    else:
        reason = " ".join(str(error).split()) or type(error).__name__
    return reason if str(job.source) in reason else f"'{job.source}': {reason}"
