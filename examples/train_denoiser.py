"""Training of the mesh denoiser that ships with the package
=========================================================

Trains the networks of meshes on generated sharp shapes, bodies, the open meshes in the public
domain or under CC BY, and surfaces made from these: dense, irregular, coarse, with weak creases,
with relief, and seen by a simulated range camera; with noise of many kinds and levels. Tests on
held-out shapes. Writes ``mesh_denoiser.safetensors`` after each stage, to be loaded by
``MeshDenoiser.from_pretrained(path)``, and ``results.json``; if the file exists, continues after
its last stage. ``combined.safetensors`` has them and the shipped networks for independent noise.
Without PERMUTOGEO_DATA the open meshes are left out. docs/guides/denoising.md has the figures of
the shipped weights: seed 0, 343 meshes, about 20 minutes on one core. This script gives networks
like them, not the same ones; those for independent noise are kept from an earlier training.

::

    PERMUTOGEO_DATA=/path/to/data python examples/train_denoiser.py --output runs/train_denoiser
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from _surfaces import coarse, creased, dense, detailed, uneven
from torch_geometric.data import Data

from permutogeo.datasets import Bodies, OpenMeshes, SharpShapes
from permutogeo.datasets.synthetic.range_camera import range_scan
from permutogeo.denoising import (
    MeshDenoiser,
    TrainingSettings,
    evaluate_denoiser,
    train_denoiser,
)
from permutogeo.transforms import NormalNoise

# Open meshes that are tested, not trained on.
HELD_OUT = (
    "wingnut",
    "koala_low_resolution",
    "skull_low_resolution",
    "demosthenes_low_res",
    "spot",
)

# Lattices of each stage: bandwidths of (positions in edge lengths, normals). The bandwidths of
# normals shrink as the noise does.
WIDE = ((0.7, None), (1.5, None), (3.0, None), (5.0, None), (9.0, None))
BANDWIDTHS = (
    (*WIDE, (1.0, 0.5), (2.0, 0.35), (2.0, 0.7), (4.0, 0.5), (8.0, 0.5)),
    (*WIDE, (1.0, 0.3), (1.5, 0.6), (2.5, 0.3), (5.0, 0.3), (8.0, 0.4)),
    (*WIDE, (1.0, 0.25), (1.5, 0.5), (2.5, 0.2), (5.0, 0.25), (8.0, 0.3)),
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


def variants(meshes, count, rng, quick):
    """Return surfaces made from each mesh, in turn: two of all, one kind of the others."""
    made = []
    for index, mesh in enumerate(meshes):
        made += [dense(mesh, count, rng), uneven(mesh, count, rng)]
        other = (coarse, creased, detailed)[index % 3](made[-1] if index % 2 else mesh, count, rng)
        made.append(other)
        if not quick:
            scanned = (mesh, made[-3], other)[index % 3]
            made.append(range_scan(scanned, count, rng))
    return made


def noisy(mesh, std, name):
    """Return a noisy mesh with its clean positions."""
    mesh = Data(pos=mesh.pos, face=mesh.face, name=f"{name} {std}")
    return NormalNoise(std, keep="clean_pos", seed=0)(mesh)


def collect(args, size, count):
    """Return meshes to train on and noisy meshes to test on."""
    train, test = organic(args.quick)
    sharp = SharpShapes(args.shapes + max(1, args.shapes // 8), num_faces=size, seed=args.seed)
    small = SharpShapes(max(1, args.shapes // 3), num_faces=(500, 2000), seed=args.seed + 1)
    bodies = list(Bodies(num_bodies=args.bodies, seed=args.seed))
    rng = np.random.default_rng(args.seed)
    bases = [*{mesh.name: mesh for mesh in train}.values(), *bodies[::2]]
    bases = bases[:1] if args.quick else [*bases, *sharp[: args.shapes : 2]]
    train = [*train, *sharp[: args.shapes], *small, *bodies]
    train = [*train, *variants(bases, count, rng, args.quick)]
    if not args.quick:
        train += [range_scan(mesh, count, rng) for mesh in sharp[: args.shapes]]
    pairs = [noisy(mesh, 0.2, mesh.name) for mesh in test]
    pairs += [noisy(uneven(mesh, count, rng), 0.2, f"{mesh.name}, uneven") for mesh in test]
    for std in (0.3,) if args.quick else (0.3, 0.6):
        pairs += [noisy(mesh, std, f"sharp {i}") for i, mesh in enumerate(sharp[args.shapes :])]
    return train, pairs


def new_model(bandwidths, seed):
    """Return a model with new networks."""
    torch.manual_seed(seed)
    return MeshDenoiser(bandwidths, hidden_channels=96, local_noise=True)


def combined(trained):
    """Return the shipped model with the trained networks for noise of scanners."""
    shipped = MeshDenoiser.from_pretrained()
    settings = {
        **shipped.settings,
        "scan_bandwidths": [stage.bandwidths for stage in trained.stages],
        "scan_hidden_channels": trained.hidden_channels,
    }
    model = MeshDenoiser(**settings)
    model.stages.load_state_dict(shipped.stages.state_dict())
    model.scan_stages.load_state_dict(trained.stages.state_dict())
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/train_denoiser"))
    parser.add_argument("--shapes", type=int, default=48, help="sharp shapes to generate")
    parser.add_argument("--bodies", type=int, default=8)
    parser.add_argument("--copies", type=int, default=2, help="noisy versions of each mesh")
    parser.add_argument("--steps", type=int, default=2000, help="optimizer steps per stage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few small meshes, few steps")
    args = parser.parse_args()
    size, bandwidths = (2500, 6000), BANDWIDTHS
    settings = TrainingSettings(
        steps=args.steps,
        copies=args.copies,
        faces=5000,
        samples=1300,
        scans=0.6,
        clean=0.1,
        stretch=2.0,
        seed=args.seed,
    )
    if args.quick:
        args.shapes, args.bodies, size, bandwidths = 1, 1, (500, 600), BANDWIDTHS[:2]
        quick = {"steps": 30, "copies": 1, "batch_size": 512, "faces": 1000}
        settings = replace(settings, **quick)

    start = time.perf_counter()
    train, pairs = collect(args, size, settings.faces)
    print(f"{len(train)} meshes to train on, {len(pairs)} pairs to test on")

    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "mesh_denoiser.safetensors"
    model = train_denoiser(train, new_model(bandwidths, args.seed), settings, snapshot=path)
    model = combined(model)
    seconds = time.perf_counter() - start
    angles = evaluate_denoiser(model, pairs)
    for pair, angle in zip(pairs, angles, strict=True):
        print(f"{pair.name:36} {angle:6.2f} degrees")
    model.save_pretrained(args.output / "combined.safetensors")
    record = {
        "arguments": {name: str(value) for name, value in vars(args).items()},
        "angles": {pair.name: angle for pair, angle in zip(pairs, angles, strict=True)},
        "seconds": seconds,
    }
    (args.output / "results.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    torch.set_num_threads(min(2, torch.get_num_threads()))
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/train_denoiser.png"
