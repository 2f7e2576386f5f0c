"""``permutogeo train``: models that fit a user's own data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permutogeo.cli._errors import kind_errors

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from permutogeo.models import MeshDenoiser

train = typer.Typer(help="Train models on your own data.", no_args_is_help=True)
NOISE = 0.3  # of the comparison before and after, in mean edges
MOST_COMPARED = 4


@train.callback()
def _group() -> None: ...


@train.command()
def denoise(
    data: Annotated[
        Path, typer.Option(help="A folder of clean meshes, searched to its depth, or one mesh.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The weights to write, .safetensors.")
    ],
    start: Annotated[
        str, typer.Option(help="Weights to begin with: a file, default, or none to begin anew.")
    ] = "default",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Of the optimizer, for each stage.")
    ] = None,
    copies: Annotated[int, typer.Option(min=1, help="Noisy versions of each mesh.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the noise and of all other chance.")] = 0,
) -> None:
    """Fine-tune the denoiser of meshes on clean meshes, to which noise is added.

    Example:

    permutogeo train denoise --data scans/clean -o mine.safetensors

    permutogeo denoise scan.ply -o clean.ply --weights mine.safetensors
    """
    with kind_errors():
        from dataclasses import replace

        from permutogeo.cli._geometry import plural
        from permutogeo.cli._jobs import check_file, files_in
        from permutogeo.models import MeshDenoiser
        from permutogeo.train.denoising import FINE_TUNING, train_denoiser
        from permutogeo.train.denoising import Settings as Anew

        check_file(output, (".safetensors",))
        model = None if start == "none" else MeshDenoiser.from_pretrained(start)
        settings = replace(Anew() if model is None else FINE_TUNING, copies=copies, seed=seed)
        if steps is not None:
            settings = replace(settings, steps=steps)
        meshes = _read_meshes(files_in(data, deep=True) if data.is_dir() else [data])
        number = plural(len(meshes), "mesh", "meshes")
        typer.echo(f"{number} to learn from, {settings.steps} steps for each stage")
        trained = train_denoiser(meshes, model, settings, log=typer.echo)
        trained.save_pretrained(output)
        _compare(meshes, model, trained)
        typer.echo(f"{output}")


def _read_meshes(paths: list[Path]) -> "list[Data]":
    """The meshes among the files; what is none is passed over with a warning."""
    from permutogeo.cli._denoise_run import read_aloud
    from permutogeo.cli._geometry import has_faces

    meshes = []
    for path in paths:
        try:
            mesh, _ = read_aloud(path)
            if not has_faces(mesh):
                raise ValueError(f"'{path}': Expected faces (got a point cloud)")
            meshes.append(mesh)
        except (ValueError, OSError) as error:
            typer.echo(f"Warning: passed over, {error}", err=True)
    if not meshes:
        raise ValueError(f"Expected a mesh to learn from (got none in {len(paths)} files)")
    return meshes


def _compare(meshes: "list[Data]", before: "MeshDenoiser | None", after: "MeshDenoiser") -> None:
    """Say what training changed, on the smallest meshes and with noise that was not learned."""
    from torch_geometric.data import Data

    from permutogeo.train.denoising import evaluate
    from permutogeo.transforms import NormalNoise

    chosen = sorted(meshes, key=lambda mesh: len(mesh["pos"]))[:MOST_COMPARED]
    noise = NormalNoise(NOISE, keep="clean_pos", seed=len(meshes))
    pairs = [noise(Data(pos=mesh["pos"].float(), face=mesh["face"])) for mesh in chosen]
    results = [
        f"{sum(angles) / len(angles):.2f} degrees {when}"
        for when, model in (("before", before), ("after", after))
        if model is not None
        for angles in [evaluate(model, pairs)]
    ]
    typer.echo(f"mean normal angle on {len(pairs)} of them, new noise: {', '.join(results)}")
