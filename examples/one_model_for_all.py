"""One network for an image, a mesh and a point cloud in the same batch
====================================================================

Generates an image, a bumpy sphere as a mesh and a scan of two walls as a point cloud, and turns
each into points with values ``x`` and lattice coordinates ``feature``. One LatticeUNet trains on a
batch of all three to segment the marked region of each (disk, cap, wall). Expect more than 95 %
correct points on each, and ``parts.png`` with predictions and ground truth.

::

    python examples/one_model_for_all.py --output runs/one_model_for_all
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.spatial import ConvexHull
from torch.nn import functional
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

from permutogeo.data import from_image, from_mesh, from_point_cloud
from permutogeo.models import LatticeUNet
from permutogeo.transforms import BilateralFeature, KeepAttributes, NormalizeScale, VertexNormals

# Attributes that the network reads; a batch of mixed kinds can hold only these.
KEEP = KeepAttributes("x", "feature", "y")


def make_image(size, rng):
    """Return the pixels of a disk before a background; the disk is marked."""
    y, x = np.mgrid[:size, :size] / size
    disk = np.hypot(x - 0.6, y - 0.4) < 0.25
    color = np.where(disk[..., None], (0.9, 0.6, 0.2), (0.3, 0.5, 0.4))
    noisy = color + 0.15 * rng.standard_normal(color.shape)
    data = from_image(noisy.astype(np.float32))
    data.y = torch.from_numpy(disk.reshape(-1)).long()
    return Compose([BilateralFeature(pos=size / 16, intensity=0.3), KEEP])(data)


def make_mesh(count, rng):
    """Return the vertices of a bumpy sphere with their normals as values; the cap is marked."""
    direction = rng.standard_normal((count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    face = ConvexHull(direction).simplices
    a, b, c = direction[face].transpose(1, 0, 2)
    inward = (np.cross(b - a, c - a) * a).sum(1) < 0
    face[inward] = face[inward][:, ::-1]
    pos = direction * (1 + 0.1 * np.sin(6 * direction[:, :1]))
    data = VertexNormals()(from_mesh(pos, face))
    data.x, data.y = data.normal, torch.from_numpy(direction[:, 2] > 0.4).long()
    return Compose([NormalizeScale(), BilateralFeature(pos=0.15), KEEP])(data)


def make_cloud(count, rng):
    """Return a noisy scan of a floor and a wall, positions as values; the wall is marked."""
    u, v, noise = rng.random((3, count))
    wall = rng.random(count) < 0.5
    upright, flat = np.stack([u, 0.02 * noise, v], 1), np.stack([u, v, 0.02 * noise], 1)
    pos = np.where(wall[:, None], upright, flat)
    data = NormalizeScale()(from_point_cloud(pos.astype(np.float32)))
    data.x, data.y = data.pos, torch.from_numpy(wall).long()
    return Compose([BilateralFeature(pos=0.15), KEEP])(data)


def draw(data, answer, size=192):
    """Return an oblique view of the points, colored by prediction (top) and truth (bottom)."""
    view = data.feature[:, :2] + 0.35 * data.feature[:, 2:]
    view = view - view.min(0).values
    column, row = (view / view.max() * (size - 3)).long().unbind(1)
    dot = torch.arange(9)  # three by three pixels
    row, column = row.unsqueeze(1) + dot // 3, column.unsqueeze(1) + dot % 3
    panels = torch.full((2, size, size, 3), 255, dtype=torch.uint8)
    colors = torch.tensor([[70, 90, 120], [230, 120, 40]], dtype=torch.uint8)
    for panel, label in zip(panels, (answer, data.y), strict=True):
        panel[row, column] = colors[label].unsqueeze(1)
    return panels.flatten(0, 1).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/one_model_for_all"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="few points, few steps")
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    size, steps = (20, 20) if args.quick else (96, args.steps)
    things = {
        "image": make_image(size, rng),
        "mesh": make_mesh(size**2, rng),
        "cloud": make_cloud(size**2, rng),
    }
    model = LatticeUNet(3, 16, 2, dim=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        for data in DataLoader(list(things.values()), batch_size=len(things), shuffle=True):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(data.x, data.feature, data.batch), data.y)
            loss.backward()
            optimizer.step()
    model.eval()
    accuracy, panels = {}, []
    for name, data in things.items():
        with torch.no_grad():
            answer = model(data.x, data.feature).argmax(1)
        accuracy[name] = float((answer == data.y).float().mean())
        print(f"{name:6} {data.num_nodes:6} points, {100 * accuracy[name]:5.1f} % correct")
        panels.append(draw(data, answer))
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "results.json").write_text(json.dumps(accuracy, indent=2))
    Image.fromarray(np.concatenate(panels, 1)).save(args.output / "parts.png")
    print(f"predictions above, truth below: {args.output / 'parts.png'}")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/one_model_for_all.png"
