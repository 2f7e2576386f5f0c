"""Input and output paths of the commands, checked before torch is imported."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from permutogeo.cluster import FileJob
from permutogeo.data.files import suffix_of

# The suffixes of permutogeo.data.mesh, .point_cloud and .pixels, whose import takes seconds.
LAS_SUFFIXES = (".las", ".laz", ".copc.laz")
MESH_SUFFIXES = (".ply", ".obj", ".off", ".stl", ".glb", ".gltf")
CLOUD_SUFFIXES = (
    *(".ply", ".obj", ".off", ".pcd", ".npy", ".npz", ".xyz", ".txt", ".xyzn", ".xyzrgb"),
    *LAS_SUFFIXES,
)
# Formats that are read but not written.
READ_ONLY_SUFFIXES = (".bin", ".e57")
GEOMETRY_SUFFIXES = tuple(dict.fromkeys([*MESH_SUFFIXES, *CLOUD_SUFFIXES]))
READABLE_SUFFIXES = (*GEOMETRY_SUFFIXES, *READ_ONLY_SUFFIXES)
IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".npy"),
)
IMAGE_OUTPUT_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".npy")
PAGE_SUFFIXES = (".html", ".htm")
# Suffixes of many other things: such files are read only if they are named, not from a folder.
AMBIGUOUS_SUFFIXES = (".txt", ".npy", ".npz", ".bin")


def check_input(path: Path, suffixes: Sequence[str]) -> None:
    """Raise unless ``path`` is a file with one of the suffixes."""
    if not path.exists():
        raise FileNotFoundError(f"'{path}': Expected a file (there is none of that name)")
    if path.is_dir():
        raise ValueError(f"'{path}': Expected a file (got a directory)")
    suffix_of(path, suffixes)


def check_output(path: Path, suffixes: Sequence[str]) -> None:
    """Raise unless a file with one of the suffixes can be created; folders may be missing."""
    suffix_of(path, suffixes)
    if path.is_dir():
        raise ValueError(f"'{path}': Expected a file (got a directory)")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"Expected a folder to write to (got the file '{folder}')")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"Expected a folder with permission to write (got '{folder}')")


def check_image_paths(inputs: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Raise unless images can be read and written at these paths."""
    for path in inputs:
        check_input(path, IMAGE_SUFFIXES)
    for path in outputs:
        check_output(path, IMAGE_OUTPUT_SUFFIXES)
    check_overwrite(inputs, [(path, inputs[0]) for path in outputs])


def check_overwrite(reads: Iterable[Path], writes: Iterable[tuple[Path, Path]]) -> None:
    """Raise if a file that is read would be written, or a file would be written twice.

    Args:
        reads: The input files.
        writes: The output files, each with the input that it is made from.
    """
    inputs = {_identity(path): path for path in reads}
    outputs: dict[object, tuple[Path, Path]] = {}
    for path, source in writes:
        key = _identity(path)
        if key in inputs:
            raise ValueError(f"The output '{path}' would overwrite the input '{inputs[key]}'")
        if key in outputs:
            other, other_source = outputs[key]
            if other_source != source:
                raise ValueError(
                    f"The outputs of '{other_source}' and '{source}' have the same path '{path}'"
                )
            raise ValueError(f"The output '{path}' would overwrite the output '{other}'")
        outputs[key] = path, source


def check_weights(name: str) -> None:
    """Raise if a name is neither that of shipped weights nor an existing file or folder."""
    shipped = Path(__file__).parent.parent / "weights" / f"{name}.safetensors"
    if name != "default" and not shipped.is_file() and not Path(name).exists():
        expected = "'default', a .safetensors file or the folder of a model"
        raise FileNotFoundError(f"Expected {expected} (got '{name}')")


def make_folders(paths: Iterable[Path]) -> None:
    """Create the folders of output files."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)


def _identity(path: Path) -> object:
    """Return a key that is equal for two names of one file, by links too."""
    if path.exists():
        status = path.stat()
        return status.st_dev, status.st_ino
    return path.resolve()


def files_in(folder: Path, skip: Iterable[Path] = ()) -> list[Path]:
    """Return the meshes and clouds in a folder and its subfolders, sorted.

    Hidden files and folders are skipped.

    Args:
        folder: The folder.
        skip: Subfolders to leave out, such as the one for the outputs.
    """
    suffixes = [suffix for suffix in READABLE_SUFFIXES if suffix not in AMBIGUOUS_SUFFIXES]
    skipped = [path.resolve() for path in skip]
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in suffixes
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and not any(path.resolve().is_relative_to(other) for other in skipped)
    ]
    if not found:
        raise ValueError(
            f"Expected files of the kinds {', '.join(suffixes)} in '{folder}' (found none)"
        )
    return found


@dataclass(frozen=True)
class DenoiseJob(FileJob):
    """One file to denoise.

    Args:
        source: The input.
        target: The output.
        report: The report page, if any.
    """

    report: Path | None = None

    @property
    def picture(self) -> Path:
        """The picture beside the report page."""
        assert self.report is not None
        return self.report.with_suffix(".png")

    @property
    def outputs(self) -> list[Path]:
        """All files that are written."""
        return [self.target] if self.report is None else [self.target, self.report, self.picture]


def plan_denoising(
    inputs: Sequence[Path], output: Path, report: Path | None, ground_truth: Path | None
) -> list[DenoiseJob]:
    """Return one job per input file; raise if a path cannot be used.

    Files of an input folder keep their places below ``output`` and ``report``.

    Args:
        inputs: Files and folders.
        output: The file to write, or a folder.
        report: The page to write, or a folder.
        ground_truth: A file that is also read.
    """
    several = len(inputs) > 1 or any(path.is_dir() for path in inputs)
    output_is_folder = several or _is_folder(output)
    report_is_folder = report is not None and (several or _is_folder(report))
    if output_is_folder:
        check_output_folder(output, GEOMETRY_SUFFIXES)
    if report is not None and report_is_folder:
        check_output_folder(report, PAGE_SUFFIXES)
    skip = [path for path in (output, report) if path is not None and path not in inputs]
    jobs = []
    for source, place in _sources(inputs, skip):
        check_input(source, READABLE_SUFFIXES)
        if place.suffix.lower() in READ_ONLY_SUFFIXES:
            place = place.with_suffix(".laz")
        target = output / place if output_is_folder else output
        check_output(target, GEOMETRY_SUFFIXES)
        page = report
        if report is not None:
            page = report / f"{place}.html" if report_is_folder else report
            check_output(page, PAGE_SUFFIXES)
        jobs.append(DenoiseJob(source, target, page))
    reads = [job.source for job in jobs]
    if ground_truth is not None:
        check_input(ground_truth, READABLE_SUFFIXES)
        reads.append(ground_truth)
    check_overwrite(reads, [(path, job.source) for job in jobs for path in job.outputs])
    return jobs


def _sources(inputs: Sequence[Path], skip: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Return the input files, each with its place in an output folder."""
    found: list[tuple[Path, Path]] = []
    for path in inputs:
        if path.is_dir():
            found += [(file, file.relative_to(path)) for file in files_in(path, skip)]
        elif path.exists():
            found.append((path, Path(path.name)))
        else:
            raise FileNotFoundError(
                f"'{path}': Expected a file or folder (there is none of that name)"
            )
    return found


def _is_folder(path: Path) -> bool:
    """Return whether an output path is a folder: an existing one, or a name without suffix."""
    return path.is_dir() or (not path.exists() and path.suffix == "")


def check_output_folder(path: Path, suffixes: Sequence[str]) -> None:
    """Raise unless a path can be a folder of outputs: not a file, nor named like one."""
    if not path.is_dir() and (path.exists() or path.suffix.lower() in suffixes):
        raise ValueError(f"Expected a folder to write several files to (got '{path}')")
