"""Folders of images for ``filter``, ``upsample`` and ``segment``: planning and running."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from permutogeo.cli.console import note, progress_bar, say
from permutogeo.cli.options import ClusterOptions
from permutogeo.cli.paths import (
    IMAGE_OUTPUT_SUFFIXES,
    IMAGE_SUFFIXES,
    check_output,
    check_output_folder,
    check_overwrite,
)
from permutogeo.cluster import FileJob, map_files


@dataclass(frozen=True)
class ImageJob(FileJob):
    """One image to make.

    Args:
        source: The input.
        target: The output.
        partner: The other input, such as a guide or scores, if any.
        overlay: The second output, if any.
    """

    partner: Path | None = None
    overlay: Path | None = None


def plan_images(
    folder: Path,
    output: Path,
    partner: Path | None,
    *,
    partner_suffixes: Sequence[str] = IMAGE_SUFFIXES,
    suffix: str | None = None,
) -> list[ImageJob]:
    """Return one job per image of a folder and its subfolders; raise if a path cannot be used.

    Args:
        folder: The inputs; arrays (.npy) among them are left to be partners.
        output: Folder of the outputs, in which images keep their places.
        partner: A file for all images, or a folder with a file of the same name (and any suffix)
            for each.
        partner_suffixes: Formats of partners.
        suffix: Format of the outputs; by default that of the input, or PNG where it is not written.
    """
    check_output_folder(output, IMAGE_SUFFIXES)
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in IMAGE_SUFFIXES
        and path.suffix.lower() != ".npy"
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and not path.resolve().is_relative_to(output.resolve())
    ]
    if not found:
        raise ValueError(f"Expected images in '{folder}' (found none)")
    jobs = []
    for path in found:
        place = path.relative_to(folder)
        kept = suffix or (path.suffix if path.suffix.lower() in IMAGE_OUTPUT_SUFFIXES else ".png")
        target = output / place.with_suffix(kept)
        check_output(target, IMAGE_OUTPUT_SUFFIXES)
        jobs.append(ImageJob(path, target, _partner_of(place, partner, partner_suffixes)))
    reads = [path for job in jobs for path in (job.source, job.partner) if path is not None]
    check_overwrite(reads, [(job.target, job.source) for job in jobs])
    return jobs


def _partner_of(place: Path, partner: Path | None, suffixes: Sequence[str]) -> Path | None:
    if partner is None or not partner.is_dir():
        return partner
    for suffix in suffixes:
        path = partner / place.with_suffix(suffix)
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"'{partner}': Expected a file for '{place}' ({place.with_suffix('')} with one of "
        f"{', '.join(suffixes)})"
    )


def run_images(
    work: Callable[[ImageJob], str],
    jobs: list[ImageJob],
    folder: Path,
    cluster: ClusterOptions,
    settings: dict[str, Any],
) -> None:
    """Run jobs with a manifest, list failures at the end, and exit with code 1 if there are any.

    Args:
        work: Makes one image; picklable.
        jobs: The images.
        folder: Folder of the outputs.
        cluster: Scheduler and resuming.
        settings: What the outputs depend on.
    """
    with progress_bar(f"{len(jobs)} images") as on_progress:

        def on_done(job: object, line: object, error: str | None, fraction: float) -> None:
            if error is None:
                say(str(line))
            else:
                note(f"Error: {error}")
            on_progress(fraction)

        report = map_files(
            work,
            jobs,
            folder,
            scheduler=cluster.scheduler,
            settings=settings,
            resume=cluster.resume,
            memory=cluster.worker_memory,
            on_done=on_done,
        )
    if report.skipped:
        note(f"Skipped {len(report.skipped)} of {len(jobs)} images that are done")
    if report.failed:
        names = ", ".join(str(job.source) for job, _ in report.failed)
        note(f"{len(report.failed)} of {len(jobs)} images failed: {names}")
        raise typer.Exit(1)
