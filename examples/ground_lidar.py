"""Ground and non-ground points of a survey, by a U-Net on the lattice, tile by tile
=================================================================================

Trains on a generated survey of 2e5 points (terrain with buildings, trees and outliers) and labels
one of 1e6 points; the area of the training does not count in the figures. Expect 99.8 % correct
labels (docs/guides/lidar.md). The labels are written to a LAZ file as classes 2 (ground) and 1
(other), and a map of a part of them to ``ground.png``.

::

    python examples/ground_lidar.py --output ground-output
"""

import argparse
import copy
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from permutogeo.data import from_point_cloud
from permutogeo.datasets import write_terrain
from permutogeo.functional import gaussian_filter
from permutogeo.models import LatticeUNet
from permutogeo.tiles import map_tiles
from permutogeo.viz import cloud_map, image_panels

GROUND = 2
# Metres in x, y and z for a unit of the lattice.
SIGMA = torch.tensor([2.0, 2.0, 1.0], dtype=torch.float64)
# Side of tiles and width of their margin.
SIZE, MARGIN = 60.0, 15.0


def inputs(pos):
    """Return values and features of points: the height over the mean of 10 m around, and 1."""
    local = pos - pos.mean(dim=0)
    mean = gaussian_filter(local[:, 2:], local[:, :2] / 10)
    height = (local[:, 2:] - mean).clamp(-20, 20) / 5
    return torch.cat([height, torch.ones_like(height)], dim=1).float(), (local / SIGMA).float()


def train(survey, steps, crop, seed=0):
    """Return a network trained on random squares of a survey."""
    torch.manual_seed(seed)
    model = LatticeUNet(2, 16, 2, dim=3, depth=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    low, high = survey.pos.min(dim=0).values, survey.pos.max(dim=0).values
    target = (survey.classification == GROUND).long()
    for step in range(steps):
        corner = low + torch.rand(3, dtype=torch.float64) * (high - low - crop).clamp(min=0)
        inside = ((survey.pos >= corner) & (survey.pos < corner + crop))[:, :2].all(dim=1)
        loss = cross_entropy(model(*inputs(survey.pos[inside])), target[inside])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(steps // 5, 1) == 0:
            print(f"step {step:4d}  loss {float(loss.detach()):.3f}", flush=True)
    return model.eval()


def label_file(model, source, target):
    """Label a file tile by tile; the true class is kept as ``truth``."""

    @torch.no_grad()
    def label(data):
        data = copy.copy(data)
        is_ground = model(*inputs(data.pos)).argmax(dim=1) == 1
        data.truth = data.classification
        data.classification = torch.where(is_ground, GROUND, 1)
        return data

    return map_tiles(label, source, SIZE, MARGIN, target, bytes_per_point=3000)


def figures(path, low, high):
    """Return the accuracy and the mean IoU of points that lie outside of a box."""
    data = from_point_cloud(path)
    outside = ~((data.pos >= low) & (data.pos <= high))[:, :2].all(dim=1)
    truth, found = (data[name][outside] == GROUND for name in ("truth", "classification"))
    union = torch.stack([truth | found, ~truth | ~found]).sum(dim=1)
    both = torch.stack([truth & found, ~truth & ~found]).sum(dim=1)
    return float((truth == found).double().mean()), float((both / union.clamp(min=1)).mean())


def draw(path, low, width, picture):
    """Draw a square of the labeled survey beside the true classes."""
    data = from_point_cloud(path)
    part = ((data.pos >= low) & (data.pos < low + width))[:, :2].all(dim=1)
    pos, truth, found = data.pos[part], data.truth[part], data.classification[part]
    wrong = (truth == GROUND) != (found == GROUND)
    panels = {"true classes": cloud_map(pos, truth), "ground and other": cloud_map(pos, found)}
    panels["errors in magenta"] = cloud_map(pos, found, wrong=wrong)
    image_panels(panels, picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("ground-output"))
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--quick", action="store_true", help="few points and steps, as a check")
    arguments = parser.parse_args()
    sizes, steps = ((4_000, 12_000), 4) if arguments.quick else ((200_000, 1_000_000), None)
    arguments.output.mkdir(parents=True, exist_ok=True)
    names = [arguments.output / f"{part}.laz" for part in ("train", "test")]
    surveys = [
        write_terrain(*pair, seed=i) for i, pair in enumerate(zip(names, sizes, strict=True))
    ]
    survey = from_point_cloud(surveys[0])
    model = train(survey, steps or arguments.steps, crop=40.0)
    target = arguments.output / "labeled.laz"
    run = label_file(model, surveys[1], target)
    low, high = survey.pos.min(dim=0).values, survey.pos.max(dim=0).values
    draw(target, high, 200.0, arguments.output / "ground.png")
    accuracy, iou = figures(target, low, high)
    print(f"{target}: {run.written:,} points in {run.tiles} tiles, {run.seconds:.1f} s")
    print(f"outside of the training area: {accuracy:.2%} correct, mean IoU {iou:.2%}")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/lidar_ground.png"
