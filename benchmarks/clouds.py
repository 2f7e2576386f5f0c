"""Point cloud denoising benchmark: the protocol of PU-Net on meshes that were not trained on.

Shapes in the unit sphere are sampled evenly with 10,000 and 50,000 points, and each coordinate gets
Gaussian noise of 1, 2 and 3 % of the radius. Errors are those of "Score-Based Point Cloud
Denoising" (Luo and Hu, 2021), times 10^4. PU-Net's own meshes are not needed; who has them, or
others, measures on them by ``permutogeo bench clouds --set FOLDER``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.benchmarks.cloud_smoothers import smoothers
from permutogeo.benchmarks.timing import console, table
from permutogeo.data import from_mesh
from permutogeo.data.mesh import READERS
from permutogeo.denoising import CloudDenoiser, chamfer_distance, point_mesh_distance
from permutogeo.denoising.cloud_error import bounding_sphere
from permutogeo.denoising.surface_sampling import sample_surface

# Open meshes that the shipped weights have not seen.
SHAPES = (
    "armadillo",
    "bunny_hr",
    "lionstatue",
    "stuffedtoy",
    "wingnut",
    "koala_low_resolution",
    "skull_low_resolution",
    "demosthenes_low_res",
    "spot",
)
# Generated shapes beside them: index of SharpShapes with the training's seed, beyond its shapes.
GENERATED = (60, 61, 62)
COUNTS, LEVELS = (10_000, 50_000), (0.01, 0.02, 0.03)
OURS = "ours"
SHAPE_COLUMNS = ("noisy", OURS, "ratio")
Row = dict[str, list[tuple[float, float, float]]]


def clouds(quick: bool = False) -> None:
    """Print errors and processor time for each density and noise level, then other noises."""
    meshes = list(shapes(quick))
    names = ", ".join(name for name, _ in meshes)
    console.print(f"Shapes: {names}")
    for count in (1000,) if quick else COUNTS:
        # Dense clouds take most of the time: every third shape is enough for them.
        some = meshes[::3] if count == COUNTS[-1] else meshes
        found = {level: compare(some, count, gaussian(level)) for level in LEVELS}
        show(f"{len(some)} shapes, {count:,} points, Gaussian noise", found)
    count = 1000 if quick else COUNTS[0]
    other: dict[str, Callable[[Tensor, np.random.Generator], Tensor]] = {
        "none": gaussian(0.0),
        "along the ray 2 %": along_rays(0.02),
        "1 % and 2 % outliers": with_outliers(0.01, 0.02),
    }
    few = meshes[::3]
    others = {name: compare(few, count, noise) for name, noise in other.items()}
    show(f"{len(few)} shapes, {count:,} points, other noise", others)


def run_meshes(folder: Path, quick: bool = False) -> None:
    """Print errors of all methods on the meshes of a folder, such as the test meshes of PU-Net."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS)
    if not paths:
        raise ValueError(f"Expected meshes in '{folder}' (got none)")
    meshes = [(path.stem, unit(from_mesh(path))) for path in paths[: 2 if quick else None]]
    console.print(f"Shapes: {', '.join(name for name, _ in meshes)}")
    for count in (1000,) if quick else COUNTS:
        found = {level: compare(meshes, count, gaussian(level)) for level in LEVELS}
        show(f"{len(meshes)} shapes, {count:,} points, Gaussian noise", found)
        show_shapes(f"{count:,} points, each shape", [name for name, _ in meshes], found)


def shapes(quick: bool) -> Iterable[tuple[str, Data]]:
    """Yield meshes in the unit sphere; only generated ones if the files are missing."""
    from permutogeo.datasets import OpenMeshes, SharpShapes

    if quick:
        yield "sharp 0", unit(SharpShapes(1, num_faces=(500, 600))[0])
        return
    try:
        found = {mesh.name: mesh for mesh in OpenMeshes()}
        for name in SHAPES:
            yield name, unit(found[name])
    except FileNotFoundError as error:
        console.print(f"{error} Using generated shapes only.")
    sharp = SharpShapes(max(GENERATED) + 1, num_faces=(3000, 12000), seed=7)
    for index in GENERATED:
        yield f"sharp {index}", unit(sharp[index])


def unit(mesh: Data) -> Data:
    """Return a mesh scaled into the unit sphere."""
    center, radius = bounding_sphere(mesh["pos"])
    return Data(pos=(mesh["pos"].double() - center) / radius, face=mesh["face"])


def gaussian(level: float) -> Callable[[Tensor, np.random.Generator], Tensor]:
    """Return a function that adds independent noise to each coordinate."""
    return lambda pos, rng: pos + level * torch.from_numpy(rng.standard_normal(pos.shape))


def along_rays(level: float) -> Callable[[Tensor, np.random.Generator], Tensor]:
    """Return a function that adds noise of range: along the rays of a sensor two radii away."""

    def noise(pos: Tensor, rng: np.random.Generator) -> Tensor:
        ray = torch.nn.functional.normalize(pos - torch.tensor([0.0, 1.0, 2.0]).to(pos), dim=1)
        return pos + level * torch.from_numpy(rng.standard_normal((len(pos), 1))) * ray

    return noise


def with_outliers(level: float, part: float) -> Callable[[Tensor, np.random.Generator], Tensor]:
    """Return a function that adds noise, and points anywhere in the cube around the cloud."""

    def noise(pos: Tensor, rng: np.random.Generator) -> Tensor:
        far = torch.from_numpy(rng.uniform(-1, 1, (round(part * len(pos)), 3)))
        return torch.cat([gaussian(level)(pos, rng), far])

    return noise


def compare(
    meshes: list[tuple[str, Data]],
    count: int,
    noise: Callable[[Tensor, np.random.Generator], Tensor],
) -> Row:
    """Return Chamfer distance, distance to the mesh and seconds of each method on each shape."""
    parts = [compare_on(mesh, count, noise, seed) for seed, (_, mesh) in enumerate(meshes)]
    return {name: [part[name] for part in parts] for name in parts[0]}


def compare_on(
    mesh: Data, count: int, noise: Callable[[Tensor, np.random.Generator], Tensor], seed: int
) -> dict[str, tuple[float, float, float]]:
    """Return Chamfer distance, distance to the mesh and seconds of each method on one shape."""
    model = CloudDenoiser.from_pretrained()
    methods = {
        "noisy": lambda pos: pos,
        **smoothers(),
        OURS: lambda pos: model(Data(pos=pos))["pos"],
    }
    rng = np.random.default_rng(seed)
    clean, _ = sample_surface(mesh["pos"], mesh["face"], count, rng, even=True)
    noisy = noise(clean, rng)
    found = {}
    for name, smooth in methods.items():
        start = time.process_time()
        pos = smooth(noisy)
        seconds = time.process_time() - start
        errors = chamfer_distance(pos, clean), point_mesh_distance(pos, mesh.pos, mesh.face)
        found[name] = (1e4 * float(errors[0]), 1e4 * float(errors[1]), seconds)
    return found


def show(title: str, found: dict[str, Row] | dict[float, Row]) -> None:
    """Print means over the shapes, and the worst ratio to the noisy cloud."""
    heads = [name if isinstance(name, str) else f"{100 * name:g} %" for name in found]
    columns = ["", *(f"{head}\n{what}" for head in heads for what in ("CD", "P2M", "worst"))]
    rows = []
    for method in next(iter(found.values())):
        cells = []
        for row in found.values():
            error, noisy = np.array(row[method]), np.array(row["noisy"])
            worst = (error[:, 0] / np.maximum(noisy[:, 0], 1e-9)).max()
            mean = error.mean(axis=0)
            is_clean = noisy[:, 0].max() < 1e-9
            cells += [f"{mean[0]:.3f}", f"{mean[1]:.3f}", "" if is_clean else f"{worst:.2f}"]
        last = np.mean([value[2] for row in found.values() for value in row[method]])
        rows.append([method, *cells, f"{last:.2f}"])
    note = "CD, P2M: x 10^4, means over shapes; worst: largest CD over that of the noisy cloud"
    table(f"{title}. {note}", [*columns, "seconds"], rows)


def show_shapes(title: str, names: list[str], found: dict[float, Row]) -> None:
    """Print the Chamfer distance of the noisy cloud and of ours, and their ratio, by shape."""
    columns = ["", *(f"{100 * level:g} %\n{what}" for level in found for what in SHAPE_COLUMNS)]
    error = np.array([[row[name] for name in ("noisy", OURS)] for row in found.values()])[..., 0]
    error = np.concatenate([error, error.mean(axis=2, keepdims=True)], axis=2)
    rows = []
    for number, name in enumerate([*names, "mean"]):
        cells: list[str] = []
        for before, after in error[:, :, number]:
            cells += [f"{before:.3f}", f"{after:.3f}", f"{after / before:.2f}"]
        rows.append([name, *cells])
    table(f"{title}. Chamfer distance x 10^4", columns, rows)
