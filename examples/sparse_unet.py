"""Ground, trees and buildings of a survey, by a sparse U-Net written for spconv, without CUDA
===========================================================================================

The network uses the calls of spconv 2 (submanifold, strided and inverse convolutions that share
``indice_key``); only the import differs. It is trained on the southern half of a generated survey
of 2e5 points in voxels of 1 m, and labels the northern half (docs/guides/spconv.md). Writes
``classes.png``.

::

    python examples/sparse_unet.py
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad

import permutogeo.compat.spconv.pytorch as spconv  # for spconv: import spconv.pytorch as spconv
from permutogeo.data import from_point_cloud
from permutogeo.datasets import write_terrain
from permutogeo.viz import cloud_map, image_panels

CLASSES = torch.tensor([2, 5, 6])  # ground, tree, building


def block(inputs, outputs, key):
    conv = spconv.SubMConv3d(inputs, outputs, 3, padding=1, bias=False, indice_key=key)
    return spconv.SparseSequential(conv, nn.BatchNorm1d(outputs), nn.ReLU())


class SparseUNet(nn.Module):
    """Four resolutions with skip connections."""

    def __init__(self, inputs, outputs, widths=(16, 32, 64, 64)):
        super().__init__()
        self.stem = block(inputs, widths[0], "level0")
        self.down, self.up, self.join = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for i, (fine, coarse) in enumerate(pairwise(widths)):
            strided = spconv.SparseConv3d(fine, coarse, 2, stride=2, indice_key=f"down{i}")
            self.down.append(
                spconv.SparseSequential(strided, nn.ReLU(), block(coarse, coarse, f"level{i + 1}"))
            )
            self.up.append(spconv.SparseInverseConv3d(coarse, fine, 2, indice_key=f"down{i}"))
            self.join.append(block(2 * fine, fine, f"level{i}"))
        self.head = nn.Linear(widths[0], outputs)

    def forward(self, x):
        levels = [self.stem(x)]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            skip, x = levels.pop(), up(x)
            x = join(x.replace_feature(torch.cat([skip.features, x.features], 1)))
        return self.head(x.features)


def voxelize(pos, size):
    """Return a sparse tensor of mean offsets and heights of points, and the voxel of each."""
    local = (pos - pos.min(0).values) / size
    cells, voxel, count = (
        local.floor().long().unique(dim=0, return_inverse=True, return_counts=True)
    )
    sums = torch.zeros(len(cells), 3, dtype=pos.dtype).index_add(0, voxel, local - local.floor())
    around = (cells[:, :2] // 24).unique(dim=0, return_inverse=True)[1]
    lowest = cells[:, 2].new_full((len(cells),), 2**31)
    lowest = lowest.scatter_reduce(0, around, cells[:, 2], "amin")  # of 24 x 24 columns
    height = (cells[:, 2] - lowest[around]) / 10
    x = torch.cat([sums / count[:, None], height[:, None], torch.ones_like(height)[:, None]], 1)
    # Three times halved, without a rest.
    shape = (cells.max(0).values // 8 * 8 + 8).tolist()
    return spconv.SparseConvTensor(x.float(), pad(cells, (1, 0)).int(), shape, batch_size=1), voxel


def train(pos, target, steps, side, voxel_size):
    """Return a network trained on random squares."""
    torch.manual_seed(0)
    model = SparseUNet(5, len(CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    low, high = pos.min(0).values, pos.max(0).values
    for step in range(steps):
        corner = low + torch.rand(3, dtype=pos.dtype) * (high - low - side).clamp_min(0)
        inside = ((pos >= corner) & (pos < corner + side))[:, :2].all(1)
        x, voxel = voxelize(pos[inside], voxel_size)
        loss = cross_entropy(model(x)[voxel], target[inside])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(steps // 5, 1) == 0:
            print(f"step {step:4d}  loss {float(loss.detach()):.3f}", flush=True)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("runs/sparse_unet"))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--voxel", type=float, default=1.0, help="side of a voxel in metres")
    parser.add_argument("--quick", action="store_true", help="few points and steps, as a check")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    count, steps = (6_000, 3) if args.quick else (200_000, args.steps)
    survey = from_point_cloud(write_terrain(args.output / "survey.laz", count, density=2.0))
    kept = torch.isin(survey.classification, CLASSES)  # without outliers
    pos, truth = survey.pos[kept], survey.classification[kept]
    target = torch.searchsorted(CLASSES, truth)
    south = pos[:, 1] < pos[:, 1].median()
    start = time.perf_counter()
    model = train(pos[south], target[south], steps, 100.0, args.voxel)
    x, voxel = voxelize(pos[~south], args.voxel)
    with torch.no_grad():
        found = CLASSES[model(x)[voxel].argmax(1)]
    right = found == truth[~south]
    print(f"northern half: {float(right.double().mean()):.2%} of {len(right):,} points correct, "
          f"{len(x.features):,} voxels, {time.perf_counter() - start:.0f} s")  # fmt: skip
    for name, label in zip(("ground", "trees", "buildings"), CLASSES, strict=True):
        both, any_ = ((found == label) & right).sum(), ((found == label) | (truth[~south] == label))
        print(f"  {name}: IoU {float(both / any_.sum()):.3f}")
    north = pos[~south]
    panels = {
        "true classes": cloud_map(north, truth[~south]),
        "sparse U-Net": cloud_map(north, found),
    }
    panels["errors in magenta"] = cloud_map(north, found, wrong=~right)
    note = {"sparse U-Net": f"{float(right.double().mean()):.1%} of the points correct"}
    image_panels(panels, args.output / "classes.png", notes=note, columns=1, width=480)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/spconv_classes.png"
