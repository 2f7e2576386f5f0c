"""The work of ``permutogeo denoise`` for each file: read, denoise, measure, write."""

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from permutogeo.cli.console import note, note_compiling, progress_bar
from permutogeo.cli.mesh_files import (
    describe_size,
    has_faces,
    lost_attributes,
    read_geometry,
    write_geometry,
)
from permutogeo.cli.options import check_device
from permutogeo.cli.paths import DenoiseJob, make_folders
from permutogeo.denoising import (
    CloudReport,
    DenoiseReport,
    MeshDenoiser,
    denoise,
    normal_angle,
    surface_distance,
    vertex_distance,
    vertex_rmse,
)
from permutogeo.viz import mesh_picture, mesh_report


@dataclass(frozen=True)
class DenoiseOptions:
    """Options of :func:`permutogeo.denoising.denoise`, as given on the command line."""

    method: str
    strength: float
    iterations: int | None
    weights: str
    device: str
    model: MeshDenoiser | None = None

    def prepare(self) -> "DenoiseOptions":
        """Check the device and load the model, once for all files."""
        check_device(self.device)
        note_compiling()
        if self.method != "learned":
            return self
        return replace(self, model=MeshDenoiser.from_pretrained(self.weights).to(self.device))

    def denoise(
        self, data: Data, on_progress: Callable[[float], None]
    ) -> tuple[Data, DenoiseReport | CloudReport]:
        """Return the denoised data on the CPU, and what was found and done."""
        reports: list[DenoiseReport | CloudReport] = []
        result = denoise(
            copy.copy(data).to(self.device),
            self.method,
            self.strength,
            self.iterations,
            model=self.model or self.weights,
            on_progress=on_progress,
            on_report=reports.append,
        ).cpu()
        return result, reports[0]

    def as_table(self) -> dict[str, object]:
        """Return the options for the report."""
        return asdict(replace(self, model=None))


@lru_cache(maxsize=1)
def prepared(options: DenoiseOptions) -> DenoiseOptions:
    """Return options with their model loaded, once in each process."""
    return options if options.model is not None else options.prepare()


@dataclass(frozen=True)
class DenoiseWork:
    """Denoises one file on a worker: picklable, without the model.

    Args:
        options: Options without a model.
        up: Axis that points up in reports.
    """

    options: DenoiseOptions
    up: str

    def __call__(self, job: DenoiseJob) -> dict[str, Any]:
        return run_job(job, prepared(self.options), None, self.up, None)


def run_job(
    job: DenoiseJob, options: DenoiseOptions, ground_truth: Path | None, up: str, label: str | None
) -> dict[str, Any]:
    """Read, denoise and write one file; return what was found and done.

    Args:
        job: The file.
        options: Options with their model.
        ground_truth: Clean file to measure errors against.
        up: Axis that points up in the report.
        label: Name beside the progress bar; ``None`` for no bar.
    """
    noisy, repairs = read_geometry(job.source)
    truth = None if ground_truth is None else read_geometry(ground_truth)[0]
    lost = lost_attributes(noisy, job.target)
    if lost:
        kind = job.target.suffix[1:].upper()
        note(f"Warning: '{job.target}': {kind} files do not hold {', '.join(lost)}")
    start = time.perf_counter()
    if label is None:
        result, done = options.denoise(noisy, lambda _: None)
    else:
        with progress_bar(label) as on_progress:
            result, done = options.denoise(noisy, on_progress)
    seconds = time.perf_counter() - start
    make_folders(job.outputs)
    write_geometry(result, job.target, job.source)
    if job.report is not None:
        about = {**options.as_table(), "seconds": round(seconds, 1), "repairs": repairs}
        about["found and done"] = str(done)
        write_report(job, noisy, result, truth, about, up)
    return {
        "input": str(job.source),
        "output": str(job.target),
        "report": None if job.report is None else str(job.report),
        "size": describe_size(result),
        "seconds": round(seconds, 3),
        **done.as_dict(),
        "summary": str(done),
        "repairs": repairs,
        "errors": gain(noisy, result, truth),
    }


def describe(facts: dict[str, Any]) -> str:
    """Return a line about a denoised file, and one about its report."""
    line = f"{facts['output']}: {facts['size']}, {facts['seconds']:.1f} s"
    if "summary" in facts:
        line += f", {facts['summary']}"
    for name, (before, after) in facts["errors"].items():
        line += f", {name} {before:.4g} to {after:.4g}"
    return line if facts["report"] is None else f"{line}\n{facts['report']}: report"


def gain(noisy: Data, result: Data, truth: Data | None) -> dict[str, tuple[float, float]]:
    """Return each error before and after; none without the truth."""
    if truth is None:
        return {}
    one_by_one = is_comparable(noisy, truth) and is_comparable(result, truth)
    measure = errors if one_by_one else surface_errors
    before, after = (measure(data, truth) for data in (noisy, result))
    return {name: (before[name], after[name]) for name in before}


def is_comparable(data: Data, other: Data) -> bool:
    """Return whether vertices correspond one by one."""
    if data["pos"].shape != other["pos"].shape or has_faces(data) != has_faces(other):
        return False
    return not has_faces(data) or torch.equal(data["face"], other["face"])


def errors(data: Data, reference: Data) -> dict[str, float]:
    """Return the errors of vertices and normals against a reference."""
    pos, target = data["pos"], reference["pos"]
    found = {"vertex RMSE": vertex_rmse(pos, target)}
    if has_faces(data):
        found["vertex distance / mean edge"] = vertex_distance(pos, target, data["face"])
        found["mean normal angle (degrees)"] = normal_angle(pos, target, data["face"])
    return {name: float(value) for name, value in found.items()}


def surface_errors(data: Data, reference: Data) -> dict[str, float]:
    """Return the error against a reference of other connectivity."""
    distance = surface_distance(data["pos"], reference["pos"], reference.get("face"))
    return {"mean distance to the ground truth": float(distance)}


def write_report(
    job: DenoiseJob,
    noisy: Data,
    result: Data,
    truth: Data | None,
    about: dict[str, object],
    up: str,
) -> None:
    """Write the report page and its picture."""
    assert job.report is not None
    views = {"noisy": noisy, "denoised": result}
    same = is_comparable(result, noisy)
    numbers = {"denoised, from noisy": (errors if same else surface_errors)(result, noisy)}
    if truth is not None:
        one_by_one = is_comparable(noisy, truth) and is_comparable(result, truth)
        measure = errors if one_by_one else surface_errors
        numbers = {name: measure(data, truth) for name, data in views.items()}
        views["ground truth"] = truth
    about = {"input": job.source.name, "output": job.target.name, **about}
    shown = {name: value for name, value in about.items() if value not in (None, "")}
    title = f"{job.source.name}, denoised"
    mesh_report(job.report, views, title=title, numbers=numbers, settings=shown, up=up)
    mesh_picture(job.picture, views, title=title, up=up)
