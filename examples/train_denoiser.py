"""Train the mesh denoiser that comes with the package.

It learns from generated sharp shapes, from bodies, from the open meshes in the public domain or
under CC BY, and from smooth surfaces made of all these, to which noise of several kinds and levels
is added, and is tested on shapes that it has not seen. Run it with:

    python examples/train_denoiser.py --output runs/train_denoiser

The weights are written as ``mesh_denoiser.safetensors``; load them with
``MeshDenoiser.from_pretrained(path)``. The open meshes are found through the environment variable
PERMUTOGEO_DATA; without it the generated shapes and bodies are all there is.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from _surfaces import dense, uneven
from torch_geometric.data import Data

from permutogeo.datasets import Bodies, OpenMeshes, SharpShapes
from permutogeo.train.denoising import Settings, evaluate, train_denoiser
from permutogeo.transforms import NormalNoise

# Left out of training: what a denoiser is worth shows on shapes that it does not know.
HELD_OUT = (
    "wingnut",
    "koala_low_resolution",
    "skull_low_resolution",
    "demosthenes_low_res",
    "spot",
)


def organic(quick):
    """Open meshes for training and for the test; none where their file is not."""
    try:
        meshes = list(OpenMeshes(terms="free"))
    except FileNotFoundError as error:
        print(error)
        return [], []
    if quick:
        meshes = [mesh for mesh in meshes if mesh.name in ("spot_low_resolution", "wingnut")]
    # Large ones, scans among them, count as several: each time another patch is taken.
    train = [m for m in meshes if m.name not in HELD_OUT for _ in range(1 + m.num_nodes // 10_000)]
    return train, [mesh for mesh in meshes if mesh.name in HELD_OUT]


def smooth(meshes, count, rng):
    """Of each mesh a dense surface and an uneven one."""
    return [make(mesh, count, rng) for mesh in meshes for make in (dense, uneven)]


def noisy(mesh, std, name):
    """A pair to test on."""
    mesh = Data(pos=mesh.pos, face=mesh.face, name=f"{name} {std}")
    return NormalNoise(std, keep="clean_pos", seed=0)(mesh)


def collect(args, size, count):
    """Meshes to train on and pairs to test on."""
    train, test = organic(args.quick)
    sharp = SharpShapes(args.shapes + max(1, args.shapes // 8), num_faces=size, seed=args.seed)
    bodies = list(Bodies(num_bodies=args.bodies, seed=args.seed))
    rng = np.random.default_rng(args.seed)
    coarse = [*{mesh.name: mesh for mesh in train}.values(), *bodies[::2]]
    coarse = coarse[:1] if args.quick else [*coarse, *sharp[: args.shapes : 6]]
    train = [*train, *sharp[: args.shapes], *bodies, *smooth(coarse, count, rng)]
    pairs = [noisy(mesh, 0.2, mesh.name) for mesh in test]
    pairs += [noisy(uneven(mesh, count, rng), 0.2, f"{mesh.name}, uneven") for mesh in test]
    for std in (0.3,) if args.quick else (0.3, 0.6):
        pairs += [noisy(mesh, std, f"sharp {i}") for i, mesh in enumerate(sharp[args.shapes :])]
    return train, pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/train_denoiser"))
    parser.add_argument("--shapes", type=int, default=48, help="sharp shapes to generate")
    parser.add_argument("--bodies", type=int, default=6)
    parser.add_argument("--copies", type=int, default=2, help="noisy versions of each mesh")
    parser.add_argument("--steps", type=int, default=1500, help="of the optimizer, each stage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few small meshes, few steps")
    args = parser.parse_args()
    size = (3000, 8000)
    settings = Settings(steps=args.steps, copies=args.copies, seed=args.seed)
    if args.quick:
        args.shapes, args.bodies, size = 1, 1, (500, 600)
        settings = Settings(steps=30, copies=1, batch_size=512, faces=1000, seed=args.seed)

    start = time.perf_counter()
    train, pairs = collect(args, size, settings.faces)
    print(f"{len(train)} meshes to train on, {len(pairs)} pairs to test on")

    model = train_denoiser(train, settings=settings)
    seconds = time.perf_counter() - start
    angles = evaluate(model, pairs)
    for pair, angle in zip(pairs, angles, strict=True):
        print(f"{pair.name:36} {angle:6.2f} degrees")
    args.output.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(args.output / "mesh_denoiser.safetensors")
    record = {
        "arguments": {name: str(value) for name, value in vars(args).items()},
        "angles": {pair.name: angle for pair, angle in zip(pairs, angles, strict=True)},
        "seconds": seconds,
    }
    (args.output / "results.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    torch.set_num_threads(min(2, torch.get_num_threads()))
    main()
