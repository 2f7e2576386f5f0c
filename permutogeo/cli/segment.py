"""``permutogeo segment``: segmentation of images by a dense CRF."""

from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permutogeo.cli.console import note_compiling, note_loading, report_errors, say
from permutogeo.cli.image_files import compute_on, read_rgb, write_labels
from permutogeo.cli.image_runs import ImageJob, plan_images, run_images
from permutogeo.cli.options import (
    ClusterOptions,
    Device,
    Resume,
    Scheduler,
    WorkerMemory,
    check_device,
    check_positive,
)
from permutogeo.cli.paths import (
    IMAGE_OUTPUT_SUFFIXES,
    check_image_paths,
    check_input,
    check_output,
    check_overwrite,
    make_folders,
)

if TYPE_CHECKING:
    import numpy as np

# Probabilities may exceed 1 by rounding.
ROUNDING = 1e-3


class Kind(str, Enum):
    """Kinds of scores."""

    logits = "logits"
    probabilities = "probabilities"
    energies = "energies"


@dataclass(frozen=True)
class SegmentWork:
    """Labels the pixels of one image; the arguments are the options of the command."""

    kind: Kind
    labels_first: bool
    sigma_pos: float
    sigma_color: float
    weight: float
    weight_near: float
    steps: int
    device: str

    def __call__(self, job: ImageJob) -> str:
        from permutogeo.image import segment as segment_image

        assert job.partner is not None
        pixels = read_rgb(job.source)
        scores = _read_scores(job.partner, self.labels_first, self.kind)
        labels: Any = compute_on(
            self.device,
            lambda x, y: segment_image(
                x,
                y,
                kind=self.kind.value,
                sigma_pos=self.sigma_pos,
                sigma_color=self.sigma_color,
                weight=self.weight,
                weight_near=self.weight_near,
                num_steps=self.steps,
            ),
            pixels,
            scores,
        )
        make_folders([job.target] if job.overlay is None else [job.target, job.overlay])
        write_labels(job.target, labels)
        line = f"{job.target}: {len(set(labels.ravel().tolist()))} labels"
        if job.overlay is None:
            return line
        from permutogeo.viz import overlay as draw_overlay

        draw_overlay(pixels, labels, job.overlay)
        return f"{line}\n{job.overlay}"


def segment(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="Image (PNG, JPEG, …), or folder.")
    ],
    unary: Annotated[
        Path,
        typer.Option(
            help="Scores of each label at each pixel: an .npy file of shape [H, W, L], or a folder "
            "with a file of the same name for each image."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Labels as a PNG with a palette, or folder.")
    ],
    overlay: Annotated[
        Path | None, typer.Option(help="Also write the labels drawn over the image.")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="Kind of the scores.")] = Kind.logits,
    labels_first: Annotated[
        bool, typer.Option("--labels-first", help="The scores have the shape [L, H, W].")
    ] = False,
    sigma_pos: Annotated[
        float, typer.Option(help="Bandwidth of the bilateral kernel in pixels.")
    ] = 60.0,
    sigma_color: Annotated[
        float, typer.Option(help="Bandwidth of the bilateral kernel in levels of 255.")
    ] = 8.0,
    weight: Annotated[float, typer.Option(help="Weight of the bilateral kernel.")] = 5.0,
    weight_near: Annotated[
        float, typer.Option(help="Weight of the spatial kernel between nearby pixels.")
    ] = 1.0,
    steps: Annotated[int, typer.Option(help="Number of mean-field steps.")] = 5,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    resume: Resume = False,
    worker_memory: WorkerMemory = None,
) -> None:
    """Label the pixels of an image by a dense CRF, given the scores of a network.

    Scores of a lower resolution than the image are interpolated.

    Example:

    \b
    permutogeo segment photo.jpg --unary scores.npy -o labels.png --overlay seen.png
    permutogeo segment photos/ --unary scores/ -o labels/ --scheduler local:4 --resume
    """
    with report_errors():
        cluster = ClusterOptions.parse(scheduler, resume, worker_memory)
        is_folder = image.is_dir()
        cluster.check_folder(is_folder)
        if not is_folder:
            _check_paths(image, unary, output, overlay)
        elif overlay is not None:
            raise ValueError("Expected no --overlay for a folder of images")
        else:
            jobs = plan_images(image, output, unary, partner_suffixes=(".npy",), suffix=".png")
        check_positive("--sigma-pos", sigma_pos)
        check_positive("--sigma-color", sigma_color)
        note_loading()
        check_device(device)
        note_compiling()
        work = SegmentWork(
            kind, labels_first, sigma_pos, sigma_color, weight, weight_near, steps, device
        )
        if is_folder:
            run_images(work, jobs, output, cluster, asdict(work))
        else:
            say(work(ImageJob(image, output, unary, overlay)))


def _check_paths(image: Path, unary: Path, output: Path, overlay: Path | None) -> None:
    check_image_paths([image], [])
    check_input(unary, (".npy",))
    check_output(output, (".png",))
    outputs = [output]
    if overlay is not None:
        check_output(overlay, [suffix for suffix in IMAGE_OUTPUT_SUFFIXES if suffix != ".npy"])
        outputs.append(overlay)
    check_overwrite([image, unary], [(path, image) for path in outputs])


def _read_scores(path: Path, labels_first: bool, kind: Kind) -> "np.ndarray":
    """Return the scores ``[H, W, L]`` of an .npy file."""
    import numpy as np

    from permutogeo.data.files import read_file
    from permutogeo.data.formats.npy import load_array

    array = read_file(path, load_array, "an array of numbers in the .npy format")
    if array.dtype.kind not in "fiu" or array.ndim != 3:
        got = f"{array.dtype} of shape {list(array.shape)}"
        raise ValueError(f"'{path}': Expected an array of numbers [H, W, L] (got {got})")
    if kind is Kind.probabilities and array.size:
        low, high = float(array.min()), float(array.max())
        if low < 0 or high > 1 + ROUNDING:
            raise ValueError(
                f"'{path}': Expected probabilities from 0 to 1 (got {low:g} to {high:g})"
            )
    scores = np.moveaxis(array, 0, -1) if labels_first else array
    return scores.astype(np.float32)
