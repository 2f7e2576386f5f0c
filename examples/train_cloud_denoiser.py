"""Training of the point cloud denoiser that ships with the package
================================================================

Trains on points of generated sharp shapes and of the open meshes in the public domain or under
CC BY, with noise of several kinds and levels. Writes ``cloud_denoiser.safetensors``, to be loaded
by ``CloudDenoiser.from_pretrained(path)``. Without PERMUTOGEO_DATA the open meshes are left out.
docs/guides/clouds.md has the figures of the shipped weights; ``permutogeo bench clouds`` measures
them on other shapes.

::

    PERMUTOGEO_DATA=/path/to/data python examples/train_cloud_denoiser.py --output runs/clouds
"""

import argparse
import time
from pathlib import Path

import torch
from torch_geometric.data import Data

from permutogeo.datasets import OpenMeshes, SharpShapes
from permutogeo.denoising import CloudTrainingSettings, train_cloud_denoiser

# Open meshes that are measured on, not trained on, and the same shapes at another resolution.
HELD_OUT = (
    "wingnut",
    "koala_low_resolution",
    "skull_low_resolution",
    "demosthenes_low_res",
    "spot",
    "spot_low_resolution",
)


def organic():
    """Return the open meshes to train on; none if their file is missing."""
    try:
        return [mesh for mesh in OpenMeshes(terms="free") if mesh.name not in HELD_OUT]
    except FileNotFoundError as error:
        print(error)
        return []


def thin(mesh):
    """Return a mesh squeezed to a plate."""
    return Data(pos=mesh.pos * torch.tensor([1.0, 1.0, 0.08]), face=mesh.face)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/clouds"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clouds", type=int, default=160)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="few small clouds and steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    if args.quick:
        meshes = list(SharpShapes(1, num_faces=(500, 600)))
        settings = CloudTrainingSettings(2, 3, points=400, density=(400, 500))
    else:
        sharp = list(SharpShapes(60, num_faces=(3000, 12000), seed=7))
        meshes = [*sharp, *map(thin, sharp[:12]), *organic() * 3]
        order = torch.randperm(len(meshes), generator=torch.Generator().manual_seed(args.seed))
        meshes = [meshes[i] for i in order.tolist()]
        settings = CloudTrainingSettings(args.clouds, args.steps, seed=args.seed)

    def report(line):
        print(f"{time.process_time() - start:7.0f} s  {line}", flush=True)

    model = train_cloud_denoiser(meshes, settings, report)
    args.output.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(args.output / "cloud_denoiser.safetensors")
    report(f"wrote {args.output / 'cloud_denoiser.safetensors'}")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/train_cloud_denoiser.png"
