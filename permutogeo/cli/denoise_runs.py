"""Runs of ``permutogeo denoise`` over its files: one after the other, in tiles, or on a cluster."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from permutogeo.cli.console import REPORTED, note, one_line, progress_bar, say
from permutogeo.cli.denoise_files import DenoiseOptions, DenoiseWork, describe, run_job
from permutogeo.cli.denoise_tiles import TileOptions, denoise_in_tiles, denoise_tiles_on_cluster
from permutogeo.cli.options import ClusterOptions
from permutogeo.cli.paths import DenoiseJob
from permutogeo.cluster import Manifest, file_digest, map_files


@dataclass(frozen=True)
class DenoiseRun:
    """One call of the command.

    Args:
        options: Options of the denoiser, without its model.
        tiles: Options of clouds that do not fit into memory.
        cluster: Scheduler and resuming.
        ground_truth: Clean file to measure errors against.
        up: Axis that points up in reports.
        as_json: Print one JSON object a file instead of a line.
    """

    options: DenoiseOptions
    tiles: TileOptions
    cluster: ClusterOptions
    ground_truth: Path | None
    up: str
    as_json: bool = False

    def settings(self) -> dict[str, object]:
        """Return what the outputs depend on, for the manifest."""
        weights = Path(self.options.weights)
        digest = file_digest(weights) if weights.is_file() else None
        return {**self.options.as_table(), **asdict(self.tiles), "weights_sha256": digest}

    def run(self, jobs: list[DenoiseJob], folder: Path) -> list[Path]:
        """Run all jobs; return the inputs that failed.

        Args:
            jobs: The files.
            folder: Folder of the outputs.
        """
        if self.cluster.scheduler is None and not self.cluster.resume:
            options = self.options.prepare()
            return [
                job.source
                for number, job in enumerate(jobs, start=1)
                if not self._run_one(job, options, _label(job, number, len(jobs)))
            ]
        tiled = [job for job in jobs if self._is_tiled(job)]
        plain = [job for job in jobs if job not in tiled]
        return self._run_files(plain, folder) + self._run_tiled(tiled, folder)

    def _is_tiled(self, job: DenoiseJob) -> bool:
        try:
            return self.tiles.applies_to(job.source)
        except REPORTED:
            return False  # the error is reported when the file is read

    def _run_one(self, job: DenoiseJob, options: DenoiseOptions, label: str) -> bool:
        """Run a job in this process; return whether it succeeded."""
        try:
            if self.tiles.applies_to(job.source):
                with progress_bar(label) as on_progress:
                    facts = denoise_in_tiles(job, options, self.tiles, on_progress)
            else:
                facts = run_job(job, options, self.ground_truth, self.up, label)
        except REPORTED as error:  # the other files are still denoised
            _note_error(job, error)
            return False
        self._say(facts)
        return True

    def _say(self, facts: dict[str, Any]) -> None:
        say(json.dumps(facts) if self.as_json else describe(facts))

    def _run_files(self, jobs: list[DenoiseJob], folder: Path) -> list[Path]:
        """Run jobs with a manifest, on a cluster if there is one."""
        if not jobs:
            return []
        with progress_bar(f"{len(jobs)} files") as on_progress:

            def on_done(job: object, facts: Any, error: str | None, fraction: float) -> None:
                if error is None:
                    self._say(facts)
                else:
                    note(f"Error: {error}")
                on_progress(fraction)

            report = map_files(
                DenoiseWork(self.options, self.up),
                jobs,
                folder,
                scheduler=self.cluster.scheduler,
                settings=self.settings(),
                resume=self.cluster.resume,
                memory=self.cluster.worker_memory,
                on_done=on_done,
            )
        if report.skipped:
            note(f"Skipped {len(report.skipped)} of {len(jobs)} files that are done")
        return [job.source for job, _ in report.failed]

    def _run_tiled(self, jobs: list[DenoiseJob], folder: Path) -> list[Path]:
        """Run clouds that do not fit into memory, one after the other, each tile by tile."""
        failed, manifest = [], Manifest(folder, self.settings())
        scheduler, resume = self.cluster.scheduler, self.cluster.resume
        for number, job in enumerate(jobs, start=1):
            if resume and manifest.is_done(job.source, job.target):
                note(f"Skipped '{job.source}', which is done")
                continue
            try:
                with progress_bar(_label(job, number, len(jobs))) as on_progress:
                    facts = denoise_tiles_on_cluster(
                        job,
                        self.options,
                        self.tiles,
                        scheduler,
                        resume,
                        self.cluster.worker_memory,
                        on_progress,
                    )
            except REPORTED as error:
                _note_error(job, error)
                failed.append(job.source)
            else:
                manifest.add(job.source, job.target, 0.0)
                self._say(facts)
        return failed


def _label(job: DenoiseJob, number: int, count: int) -> str:
    return job.source.name if count == 1 else f"{number}/{count} {job.source.name}"


def _note_error(job: DenoiseJob, error: Exception) -> None:
    reason = one_line(error)
    named = reason if str(job.source) in reason else f"'{job.source}': {reason}"
    note(f"Error: {named}")
