"""Six hard cases of mesh denoising: pictures, and a table of simulated scans
==========================================================================

A pyramid and a cone seen by a simulated depth camera, with the noise angle and correlation of
Kinect scans; rounded depth; a clean CAD part of slivers; a coarse model; parts whose edges differ
1 : 8. Writes a picture and an entry of ``results.json`` for each, with ``--scans`` the table of
docs/guides/denoising.md, all solids with each kind of noise, and with ``--terrain`` clean terrain.

::

    python examples/hard_cases.py --output demo-output/hard_cases
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.data.geometry import smooth_by_normals
from permutogeo.datasets import procedural_body
from permutogeo.datasets.synthetic.depth_camera import SOLIDS, depth_scan
from permutogeo.datasets.synthetic.fractal_terrain import (
    FORMS,
    LAYOUTS,
    fractal_planet,
    fractal_terrain,
)
from permutogeo.denoising import MeshDenoiser, normal_angle
from permutogeo.transforms import NormalNoise
from permutogeo.viz import mesh_picture

# Noise of two Kinect scans: mean normal angle in degrees, correlation between neighbors.
FRAME = {"angle": 26.09, "correlation": 0.70}
FUSED = {"angle": 14.39, "correlation": 0.97, "frames": 4}
TERRACES = {"angle": 26.09, "correlation": 0.70, "step": 2.5}
KINDS = {"single frame": FRAME, "fused": FUSED, "terraces": TERRACES}
# Steps of normal smoothing, of which the best counts.
SMOOTHING = (5, 20, 60)


def data(mesh, scale=1.0, shift=0.0):
    """Return a trimesh as Data."""
    pos = torch.from_numpy(np.array(mesh.vertices)).float() * scale
    face = torch.from_numpy(np.array(mesh.faces).T.copy()).long()
    return Data(pos=pos + torch.tensor([shift, 0.0, 0.0]), face=face)


def noisy(mesh, level):
    return NormalNoise(level, keep="clean_pos", seed=0)(mesh)


def two_scales():
    """Return a small box beside a large sphere, each with noise of its own edges."""
    box = trimesh.creation.box()
    for _ in range(4):
        box = box.subdivide()
    parts = [noisy(data(box), 0.2), noisy(data(trimesh.creation.icosphere(4), 3.0, 4.5), 0.2)]
    first, second = parts
    face = torch.cat([first.face, second.face + len(first.pos)], 1)
    joined = {name: torch.cat([part[name] for part in parts]) for name in ("pos", "clean_pos")}
    return Data(face=face, **joined)


def cases(faces):
    """Return noisy meshes with ``clean_pos`` by name."""
    part = data(trimesh.creation.annulus(0.5, 1, 0.6, sections=96))
    part.clean_pos = part.pos
    return {
        "pyramid, single depth frame": depth_scan("pyramid", faces, seed=1, **FRAME),
        "cone, fused frames": depth_scan("cone", faces, seed=1, **FUSED),
        "pyramid, rounded depth": depth_scan("pyramid", faces, seed=1, **TERRACES),
        "clean CAD part of slivers": part,
        "coarse body, noise 0.1": noisy(procedural_body(0, 32), 0.1),
        "edges 1 to 8, noise 0.2": two_scales(),
    }


def terrain(faces):
    """Yield clean terrain with ``clean_pos`` by name."""
    for seed, exponent in enumerate((0.5, 0.7, 0.9)):
        for layout, slope in zip(LAYOUTS, (25, 35, 10), strict=True):
            name = f"terrain, exponent {exponent}, {slope} degrees, {layout}"
            yield name, fractal_terrain(faces, exponent, slope, layout=layout, seed=500 + seed)
        finest = fractal_terrain(faces, exponent, 20, finest=4, seed=500 + seed)
        yield f"enlarged terrain, exponent {exponent}", finest
        yield f"planet, exponent {exponent}", fractal_planet(5, exponent, 20, seed=500 + seed)
    for form in list(FORMS)[1:]:
        yield f"terrain, {form}", fractal_terrain(faces, 0.7, 25, form=form, seed=504)


def measure(model, mesh):
    """Return the angles of the noisy mesh, ours and the best smoothing, the report, and ours."""
    reports = []
    ours = model(mesh, on_report=reports.append)
    smooth = [smooth_by_normals(mesh.pos.double(), mesh.face, steps) for steps in SMOOTHING]
    angle = [float(normal_angle(pos, mesh.clean_pos, mesh.face)) for pos in (mesh.pos, ours.pos)]
    best = min(float(normal_angle(pos, mesh.clean_pos, mesh.face)) for pos in smooth)
    return {
        "noisy": angle[0],
        "ours": angle[1],
        "best smoothing": best,
        "said": str(reports[0]),
    }, ours


def show(name, row):
    numbers = "  ".join(f"{row[key]:6.2f}" for key in ("noisy", "ours", "best smoothing"))
    print(f"{name:40} {numbers}  {row['said']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output/hard_cases"))
    parser.add_argument("--faces", type=int, default=12_000, help="faces of the scans")
    parser.add_argument("--scans", action="store_true", help="the table of simulated scans, too")
    parser.add_argument("--terrain", action="store_true", help="clean terrain, too")
    parser.add_argument("--quick", action="store_true", help="small scans, small pictures")
    args = parser.parse_args()
    if args.quick:
        args.faces = 2500
    args.output.mkdir(parents=True, exist_ok=True)
    model = MeshDenoiser.from_pretrained()
    print(f"{'mean normal angle in degrees':40} {'noisy':>6}  {'ours':>6}  best smoothing")
    record = {}
    for name, mesh in cases(args.faces).items():
        record[name], ours = measure(model, mesh)
        show(name, record[name])
        clean = Data(pos=mesh.clean_pos, face=mesh.face)
        views = {"noisy": Data(pos=mesh.pos, face=mesh.face), "ours": ours, "clean": clean}
        path = args.output / f"{name.replace(',', '').replace(' ', '_')}.png"
        size = 64 if args.quick else 420
        mesh_picture(path, views, title=name, error="clean", size=size)
    if args.scans:
        for kind, settings in KINDS.items():
            for solid in SOLIDS:
                name = f"{solid}, {kind}, seed 2"
                scan = depth_scan(solid, args.faces, seed=2, **settings)
                record[name], _ = measure(model, scan)
                show(name, record[name])
    for name, mesh in terrain(args.faces) if args.terrain else ():
        mesh.clean_pos = mesh.pos
        record[name], _ = measure(model, mesh)
        show(name, record[name])
    (args.output / "results.json").write_text(json.dumps(record, indent=2))
    print(args.output)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/hard_cases.png"
