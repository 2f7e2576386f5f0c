"""``permutogeo train``: training on a user's own data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permutogeo.cli.console import note, note_loading, one_line, report_errors, say
from permutogeo.cli.options import Device, PlainCommand, check_device
from permutogeo.cli.paths import (
    GEOMETRY_SUFFIXES,
    check_input,
    check_output,
    check_overwrite,
    check_weights,
    files_in,
    make_folders,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from permutogeo.denoising import MeshDenoiser

# Noise of the evaluation before and after training, in mean edge lengths.
NOISE = 0.3
# Number of meshes in the evaluation.
NUM_EVALUATED = 4

train = typer.Typer(help="Train models on your own data.", no_args_is_help=True)


@train.callback()
def _group() -> None: ...


@train.command(cls=PlainCommand)
def denoise(
    data: Annotated[
        Path,
        typer.Option(help="A clean mesh, or a folder, which is searched with its subfolders."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Weights to write (.safetensors).")
    ],
    start: Annotated[
        str,
        typer.Option(help="Weights to fine-tune: 'default' or a file; 'none' trains from scratch."),
    ] = "default",
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Optimizer steps per stage; by default 500, or 2000 from scratch."
        ),
    ] = None,
    copies: Annotated[int, typer.Option(min=1, help="Noisy copies of each mesh.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the noise and of training.")] = 0,
    device: Device = "cpu",
) -> None:
    """Fine-tune the mesh denoiser on clean meshes, to which noise is added.

    Example:

    \b
    permutogeo train denoise --data scans/clean -o mine.safetensors
    permutogeo denoise scan.ply -o clean.ply --weights mine.safetensors
    """
    with report_errors():
        check_output(output, (".safetensors",))
        if start != "none":
            check_weights(start)
            check_overwrite([Path(start)], [(output, data)])
        if data.is_dir():
            paths = files_in(data)
        else:
            check_input(data, GEOMETRY_SUFFIXES)
            paths = [data]
        note_loading()
        check_device(device)
        _train(paths, output, start, steps, copies, seed, device)


def _train(
    paths: list[Path],
    output: Path,
    start: str,
    steps: int | None,
    copies: int,
    seed: int,
    device: str,
) -> None:
    from dataclasses import replace

    from permutogeo.cli.mesh_files import count_noun
    from permutogeo.denoising import FINE_TUNING, MeshDenoiser, TrainingSettings, train_denoiser

    model = None if start == "none" else MeshDenoiser.from_pretrained(start)
    defaults = TrainingSettings() if model is None else FINE_TUNING
    settings = replace(defaults, copies=copies, seed=seed, steps=steps or defaults.steps)
    meshes = _read_meshes(paths)
    say(
        f"{count_noun(len(meshes), 'mesh', 'meshes')} to train on, {settings.steps} steps per stage"
    )
    trained = train_denoiser(meshes, model, settings, log=say, device=device)
    make_folders([output])
    trained.save_pretrained(output)
    _compare(meshes, model, trained)
    say(f"{output}")


def _read_meshes(paths: list[Path]) -> "list[Data]":
    """Return the meshes; files that are not meshes are skipped with a warning."""
    from permutogeo.cli.mesh_files import has_faces, read_geometry

    meshes = []
    for path in paths:
        try:
            mesh, _ = read_geometry(path)
            if not has_faces(mesh):
                raise ValueError(f"'{path}': Expected faces (got a point cloud)")
            meshes.append(mesh)
        except (ValueError, OSError) as error:
            note(f"Warning: skipped, {one_line(error)}")
    if not meshes:
        raise ValueError(f"Expected a mesh to train on (got none in {len(paths)} files)")
    return meshes


def _compare(meshes: "list[Data]", before: "MeshDenoiser | None", after: "MeshDenoiser") -> None:
    """Print the errors before and after training, on the smallest meshes with new noise."""
    from torch_geometric.data import Data

    from permutogeo.denoising import evaluate_denoiser
    from permutogeo.transforms import NormalNoise

    chosen = sorted(meshes, key=lambda mesh: len(mesh["pos"]))[:NUM_EVALUATED]
    noise = NormalNoise(NOISE, keep="clean_pos", seed=len(meshes))
    pairs = [noise(Data(pos=mesh["pos"].float(), face=mesh["face"])) for mesh in chosen]
    results = []
    for when, model in (("before", before), ("after", after)):
        if model is not None:
            angles = evaluate_denoiser(model, pairs)
            results.append(f"{sum(angles) / len(angles):.2f} degrees {when}")
    say(f"mean normal angle on {len(pairs)} of them, new noise: {', '.join(results)}")
