"""Training of the mesh denoiser that ships with the package.

    PERMUTOGEO_DATA=/path/to/data python examples/train_denoiser.py --output runs/train_denoiser

Trains on generated sharp shapes, bodies, the open meshes in the public domain or under CC BY, and
dense smooth surfaces made from these, with noise of several kinds and levels; tests on held-out
shapes. Writes ``mesh_denoiser.safetensors``, to be loaded by
``MeshDenoiser.from_pretrained(path)``, and ``results.json``. Without PERMUTOGEO_DATA the open
meshes are left out. docs/results.md has the figures of the shipped weights.
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
from permutogeo.denoising import TrainingSettings, evaluate_denoiser, train_denoiser
from permutogeo.transforms import NormalNoise

# Open meshes that are tested, not trained on.
HELD_OUT = (
    "wingnut",
    "koala_low_resolution",
    "skull_low_resolution",
    "demosthenes_low_res",
    "spot",
)


def organic(quick):
    """Return open meshes to train and to test on; none if their file is missing."""
    try:
        meshes = list(OpenMeshes(terms="free"))
    except FileNotFoundError as error:
        print(error)
        return [], []
    if quick:
        meshes = [mesh for mesh in meshes if mesh.name in ("spot_low_resolution", "wingnut")]
    # Large meshes are repeated, since each copy contributes one random patch.
    train = [m for m in meshes if m.name not in HELD_OUT for _ in range(1 + m.num_nodes // 10_000)]
    return train, [mesh for mesh in meshes if mesh.name in HELD_OUT]


def smooth(meshes, count, rng):
    """Return a dense and an irregular surface for each mesh."""
    return [make(mesh, count, rng) for mesh in meshes for make in (dense, uneven)]


def noisy(mesh, std, name):
    """Return a noisy mesh with its clean positions."""
    mesh = Data(pos=mesh.pos, face=mesh.face, name=f"{name} {std}")
    return NormalNoise(std, keep="clean_pos", seed=0)(mesh)


def collect(args, size, count):
    """Return meshes to train on and noisy meshes to test on."""
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
    parser.add_argument("--steps", type=int, default=1500, help="optimizer steps per stage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few small meshes, few steps")
    args = parser.parse_args()
    size = (3000, 8000)
    settings = TrainingSettings(steps=args.steps, copies=args.copies, seed=args.seed)
    if args.quick:
        args.shapes, args.bodies, size = 1, 1, (500, 600)
        settings = TrainingSettings(steps=30, copies=1, batch_size=512, faces=1000, seed=args.seed)

    start = time.perf_counter()
    train, pairs = collect(args, size, settings.faces)
    print(f"{len(train)} meshes to train on, {len(pairs)} pairs to test on")

    model = train_denoiser(train, settings=settings)
    seconds = time.perf_counter() - start
    angles = evaluate_denoiser(model, pairs)
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
