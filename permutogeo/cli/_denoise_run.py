"""What ``permutogeo denoise`` does with each file, once it is clear what goes where."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import typer
from torch_geometric.data import Data

from permutogeo.cli._geometry import check_target, has_faces, read, size, write
from permutogeo.cli._jobs import Job
from permutogeo.mesh import denoise
from permutogeo.metrics import normal_angle, vertex_distance, vertex_rmse
from permutogeo.models import MeshDenoiser
from permutogeo.viz import mesh_picture, mesh_report

# A file that raises one of these is given up; the others go on.
FAILURES = (ValueError, TypeError, OSError, RuntimeError, MemoryError)


@dataclass(frozen=True)
class Settings:
    """How to denoise, as the command line has it."""

    method: str
    strength: float
    iterations: int | None
    weights: str
    device: str

    def check(self) -> None:
        """Raise for what would fail with every file."""
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"Expected a device of this machine (got '{self.device}': {reason})"
            ) from error
        if self.method == "learned":
            MeshDenoiser.from_pretrained(self.weights)

    def denoise(self, data: Data, on_progress: Callable[[float], None]) -> Data:
        """The result, in main memory."""
        moved = copy.copy(data).to(self.device)
        result = denoise(
            moved,
            self.method,
            self.strength,
            self.iterations,
            weights=self.weights,
            on_progress=on_progress,
        )
        return result.cpu()


def run_all(jobs: list[Job], settings: Settings, truth: Path | None, up: str) -> list[Path]:
    """Do all jobs; the inputs that could not be done."""
    settings.check()
    failed = []
    for number, job in enumerate(jobs, start=1):
        label = job.source.name if len(jobs) == 1 else f"{number}/{len(jobs)} {job.source.name}"
        try:
            typer.echo(run(job, settings, truth, up, label))
        except FAILURES as error:
            reason = str(error) or type(error).__name__
            named = reason if str(job.source) in reason else f"'{job.source}': {reason}"
            typer.echo(f"Error: {named}", err=True)
            failed.append(job.source)
    return failed


def run(job: Job, settings: Settings, truth: Path | None, up: str, label: str) -> str:
    """Read, denoise, write; what there is to say about it."""
    noisy, repairs = read_aloud(job.source)
    clean_mesh = None if truth is None else read_aloud(truth)[0]
    lost = check_target(noisy, job.target)
    if lost:
        note = f"{job.target.suffix[1:].upper()} files do not hold {', '.join(lost)}"
        typer.echo(f"Warning: '{job.target}': {note}", err=True)
    start = time.perf_counter()
    with bar(label) as advance:
        result = settings.denoise(noisy, advance)
    seconds = time.perf_counter() - start
    for path in job.written:
        path.parent.mkdir(parents=True, exist_ok=True)
    write(result, job.target, job.source)
    if job.report is not None:
        about = {**asdict(settings), "seconds": round(seconds, 1), "repairs": "; ".join(repairs)}
        write_report(job, noisy, result, clean_mesh, about, up)
    return f"{job.target}: {size(result)}, {seconds:.1f} s{gain(noisy, result, clean_mesh)}"


@contextmanager
def bar(label: str) -> Iterator[Callable[[float], None]]:
    """A bar that goes away when all is done, where standard error is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(label, total=1.0)
        yield lambda part: progress.update(task, completed=part)


def read_aloud(path: Path) -> tuple[Data, list[str]]:
    """Read a file, and say what had to be mended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read(path)
    notes = [str(warning.message).removeprefix("RepairMesh: ") for warning in caught]
    for note in notes:
        typer.echo(f"Warning: '{path}': {note}", err=True)
    return data, notes


def gain(noisy: Data, result: Data, truth: Data | None) -> str:
    """What the truth says, where it has the same faces."""
    if truth is None or not comparable(noisy, truth):
        return ""
    before, after = (measures(data, truth) for data in (noisy, result))
    return "".join(f", {name} {before[name]:.4g} to {after[name]:.4g}" for name in before)


def comparable(data: Data, other: Data) -> bool:
    """Whether vertices belong together one by one."""
    if data["pos"].shape != other["pos"].shape or has_faces(data) != has_faces(other):
        return False
    return not has_faces(data) or torch.equal(data["face"], other["face"])


def measures(data: Data, reference: Data) -> dict[str, float]:
    """How far vertices and normals are from those of a reference."""
    pos, target = data["pos"], reference["pos"]
    found = {"vertex RMSE": vertex_rmse(pos, target)}
    if has_faces(data):
        found["vertex distance / mean edge"] = vertex_distance(pos, target, data["face"])
        found["mean normal angle (degrees)"] = normal_angle(pos, target, data["face"])
    return {name: float(value) for name, value in found.items()}


def write_report(
    job: Job, noisy: Data, result: Data, truth: Data | None, about: dict[str, object], up: str
) -> None:
    """The page and the picture."""
    assert job.report is not None
    views = {"noisy": noisy, "denoised": result}
    numbers = {"denoised, from noisy": measures(result, noisy)}
    if truth is not None:
        if comparable(noisy, truth):
            numbers = {name: measures(data, truth) for name, data in views.items()}
        views["ground truth"] = truth
    about = {"input": str(job.source), "output": str(job.target), **about}
    told = {name: value for name, value in about.items() if value not in (None, "")}
    title = f"{job.source.name}, denoised"
    mesh_report(job.report, views, title=title, numbers=numbers, settings=told, up=up)
    mesh_picture(job.picture, views, title=title, up=up)
