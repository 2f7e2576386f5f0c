"""``permutogeo filter``: bilateral filter of an image, or of a folder of images."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo.cli.console import note_compiling, note_loading, report_errors, say
from permutogeo.cli.image_files import (
    check_channels,
    compute_on,
    read_image,
    without_alpha,
    write_image,
)
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
from permutogeo.cli.paths import check_image_paths, make_folders


@dataclass(frozen=True)
class FilterWork:
    """Filters one image.

    Args:
        sigma_pos: Bandwidth in pixels.
        sigma_color: Bandwidth in levels of 255.
        device: Device to compute on.
    """

    sigma_pos: float
    sigma_color: float
    device: str

    def __call__(self, job: ImageJob) -> str:
        from permutogeo.image import bilateral_filter

        pixels = read_image(job.source)
        check_channels(pixels, job.target)
        colors = without_alpha(job.source, pixels)
        guide = job.partner
        edges = [] if guide is None else [without_alpha(guide, read_image(guide))]
        smooth: Any = compute_on(
            self.device,
            lambda x, y=None: bilateral_filter(x, self.sigma_pos, self.sigma_color / 255, y),
            colors,
            *edges,
        )
        out = pixels.copy()
        out[..., : colors.shape[2]] = smooth
        make_folders([job.target])
        write_image(out, job.target, job.source)
        return f"{job.target}: {out.shape[1]} x {out.shape[0]} pixels"


def filter_image(
    image: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGE", help="Image (PNG, JPEG, TIFF, …), array (.npy), or folder of images."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Output image (PNG, JPEG, TIFF, …), .npy, or folder."),
    ],
    guide: Annotated[
        Path | None,
        typer.Option(
            help="Image of the same size whose edges are preserved instead, or a folder of them."
        ),
    ] = None,
    sigma_pos: Annotated[float, typer.Option(help="Bandwidth in pixels.")] = 8.0,
    sigma_color: Annotated[float, typer.Option(help="Bandwidth in levels of 255.")] = 20.0,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    resume: Resume = False,
    worker_memory: WorkerMemory = None,
) -> None:
    """Smooth an image and preserve its edges, by a bilateral filter.

    An alpha channel is kept unchanged. The images of a folder keep their places in the output
    folder; a manifest there says what was made from what.

    Example:

    \b
    permutogeo filter photo.jpg -o smooth.png --sigma-pos 8 --sigma-color 20
    permutogeo filter photos/ -o smooth/ --scheduler local:4 --resume
    """
    with report_errors():
        cluster = ClusterOptions.parse(scheduler, resume, worker_memory)
        check_positive("--sigma-pos", sigma_pos)
        check_positive("--sigma-color", sigma_color)
        is_folder = image.is_dir()
        cluster.check_folder(is_folder)
        if is_folder:
            jobs = plan_images(image, output, guide)
        else:
            check_image_paths([image] if guide is None else [image, guide], [output])
        note_loading()
        check_device(device)
        note_compiling()
        work = FilterWork(sigma_pos, sigma_color, device)
        if is_folder:
            run_images(work, jobs, output, cluster, asdict(work))
        else:
            say(work(ImageJob(image, output, guide)))
