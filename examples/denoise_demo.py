"""Denoise a body with every method, and show what came of it.

    python examples/denoise_demo.py --output demo-output

generates a human-like body, moves its vertices along their normals by noise of a fifth of the mean
edge, denoises it with each method of ``permutogeo denoise``, and writes the meshes (PLY), a picture
and a page to turn them in. Expect the vertex RMSE to fall from 3.1 mm to about 1.1 mm, and the mean
angle between normals from 20 to about 3 degrees.
"""

import argparse
import time
from pathlib import Path

import permutogeo as pg
from permutogeo.data import to_mesh
from permutogeo.datasets import procedural_body
from permutogeo.mesh import METHODS, denoise
from permutogeo.metrics import normal_angle, vertex_rmse
from permutogeo.transforms import NormalNoise
from permutogeo.viz import mesh_picture, mesh_report

# Of the lattices that the methods use: positions, intrinsic coordinates, positions and normals.
DIMS = (3, 4, 6)
COLUMNS = ("vertex RMSE (mm)", "normal angle (degrees)", "seconds")


def timed(what, call):
    """Call, say how long it took, and return the result."""
    start = time.perf_counter()
    result = call()
    print(f"{what}: {time.perf_counter() - start:.1f} s", flush=True)
    return result


def row(mesh, truth, seconds=None):
    """A row of the table."""
    rmse = 1e3 * float(vertex_rmse(mesh.pos, truth.pos))
    angle = float(normal_angle(mesh.pos, truth.pos, truth.face))
    return dict(zip(COLUMNS, (rmse, angle, seconds), strict=True))


def print_table(table):
    print("".join([" " * 12, *(f"{name:>24}" for name in COLUMNS)]))
    for name, cells in table.items():
        texts = ("" if cell is None else f"{cell:.4g}" for cell in cells.values())
        print("".join([f"{name:12}", *(f"{text:>24}" for text in texts)]))


def denoise_all(noisy, truth):
    """What each method makes of a mesh, and the table of their errors."""
    meshes, table = {"noisy": noisy}, {"noisy": row(noisy, truth)}
    for method in reversed(METHODS):
        start = time.perf_counter()
        meshes[method] = denoise(noisy, method)
        table[method] = row(meshes[method], truth, round(time.perf_counter() - start, 1))
    return {**meshes, "ground truth": truth}, table


def write(meshes, table, args):
    """Meshes, picture and page; returns where they are."""
    args.output.mkdir(parents=True, exist_ok=True)
    files = [
        to_mesh(mesh, args.output / f"{name.replace(' ', '_')}.ply")
        for name, mesh in meshes.items()
    ]
    title = f"A body with noise of {args.noise:g} mean edges, denoised"
    settings = {"noise / mean edge": args.noise, "seed": args.seed, "resolution": args.resolution}
    picture, page = args.output / "denoise.png", args.output / "denoise.html"
    files.append(mesh_picture(picture, meshes, title=title, size=64 if args.quick else 600))
    files.append(mesh_report(page, meshes, title=title, numbers=table, settings=settings))
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--noise", type=float, default=0.2, help="relative to the mean edge")
    parser.add_argument("--resolution", type=int, default=128, help="of the body")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a coarse body, a small picture")
    args = parser.parse_args()
    if args.quick:
        args.resolution = 40

    truth = timed("a body made", lambda: procedural_body(args.seed, args.resolution))
    noisy = NormalNoise(args.noise, seed=args.seed)(truth)
    timed("kernels compiled, or found", lambda: pg.warmup(DIMS))
    meshes, table = denoise_all(noisy, truth)
    print(f"\n{truth.num_nodes:,} vertices, {truth.face.size(1):,} faces")
    print_table(table)
    print("\n" + "\n".join(map(str, write(meshes, table, args))))


if __name__ == "__main__":
    main()
