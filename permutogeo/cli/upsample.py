"""``permutogeo upsample``: an image, or a folder of images, upsampled along guides."""

from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo.cli.console import note_compiling, note_loading, report_errors, say
from permutogeo.cli.image_files import (
    check_channels,
    check_range,
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


class UpsampleMethod(str, Enum):
    """Method of upsampling."""

    filter = "filter"
    solver = "solver"


@dataclass(frozen=True)
class UpsampleWork:
    """Upsamples one image by its guide.

    Args:
        sigma_pos: Bandwidth in pixels of the guide.
        sigma_color: Bandwidth in levels of 255.
        device: Device to compute on.
        method: ``"filter"`` or ``"solver"``.
    """

    sigma_pos: float | None
    sigma_color: float | None
    device: str
    method: str = "filter"

    def __call__(self, job: ImageJob) -> str:
        from permutogeo.image import bilateral_solver_upsample, joint_bilateral_upsample

        assert job.partner is not None
        small = read_image(job.source)
        large = without_alpha(job.partner, read_image(job.partner))
        check_range(small, job.target)
        check_channels(small, job.target)
        run: Any = joint_bilateral_upsample
        sigmas = {} if self.sigma_pos is None else {"sigma_pos": self.sigma_pos}
        if self.sigma_color is not None:
            sigmas["sigma_color"] = self.sigma_color / 255
        if self.method == "solver":
            run = bilateral_solver_upsample
        out: Any = compute_on(self.device, lambda x, y: run(x, y, **sigmas), small, large)
        make_folders([job.target])
        write_image(out, job.target, job.source)
        sizes = [f"{pixels.shape[1]} x {pixels.shape[0]}" for pixels in (small, out)]
        return f"{job.target}: {sizes[0]} to {sizes[1]} pixels"


def upsample(
    low: Annotated[
        Path,
        typer.Argument(
            metavar="LOW",
            help="Low-resolution image: colors, depth of 8 or 16 bits, or an array (.npy); or a "
            "folder of images.",
        ),
    ],
    guide: Annotated[
        Path,
        typer.Option(
            help="High-resolution image, larger by an integer factor; or a folder with an image "
            "of the same name for each."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Output image (PNG, JPEG, TIFF, …), .npy, or folder."),
    ],
    sigma_pos: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth in pixels of the guide; by default chosen by the factor and by the "
            "number of channels."
        ),
    ] = None,
    sigma_color: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth of the guide in levels of 255; by default 6, or 24 for LOW "
            "with a single channel, or 25.5 for the solver."
        ),
    ] = None,
    method: Annotated[
        UpsampleMethod,
        typer.Option(
            help="filter: joint bilateral filter. solver: bilateral solver with the means of "
            "blocks kept, the most accurate for depth."
        ),
    ] = UpsampleMethod.filter,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    resume: Resume = False,
    worker_memory: WorkerMemory = None,
) -> None:
    """Upsample an image along the edges of a high-resolution guide.

    A single channel, such as depth, is interpolated, and the guide corrects its edges; colors are
    weighted means of the low-resolution colors. If a bandwidth is given, both are weighted means.

    Example:

    \b
    permutogeo upsample depth.png --guide photo.jpg -o large.png
    permutogeo upsample depth.png --guide photo.jpg -o large.png --method solver
    permutogeo upsample depth/ --guide photos/ -o large/ --scheduler local:4
    """
    with report_errors():
        cluster = ClusterOptions.parse(scheduler, resume, worker_memory)
        for name, sigma in (("--sigma-color", sigma_color), ("--sigma-pos", sigma_pos)):
            if sigma is not None:
                check_positive(name, sigma)
        is_folder = low.is_dir()
        cluster.check_folder(is_folder)
        if is_folder:
            jobs = plan_images(low, output, guide)
        else:
            check_image_paths([low, guide], [output])
        note_loading()
        check_device(device)
        note_compiling()
        work = UpsampleWork(sigma_pos, sigma_color, device, method.value)
        if is_folder:
            run_images(work, jobs, output, cluster, asdict(work))
        else:
            say(work(ImageJob(low, output, guide)))
