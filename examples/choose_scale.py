"""Accuracy over the scale of the features: how many points should share a vertex?

    python examples/choose_scale.py

Trains one LatticeUNet on generated streets for each number of points per vertex, for the same
seconds of one core, and draws the mean IoU over it to ``scale.png``. Expect the best scores at two
to ten points per vertex, and scales far from them to be worse and, if finer, slower.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import torch
from compare_models import LatticeModel, train

from permutogeo.datasets import StreetScenes
from permutogeo.models import LatticeUNet
from permutogeo.transforms import RandomJitter


class Scaled(LatticeModel):
    """A U-Net whose features are scaled for a number of points per vertex."""

    def __init__(self, data, points_per_vertex):
        torch.nn.Module.__init__(self)
        self.model = LatticeUNet.from_data(data, 24, points_per_vertex=points_per_vertex)


def draw(results, path):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    densities, scores = zip(*results, strict=True)
    axes.semilogx(densities, scores, marker="o")
    axes.axvspan(2, 4, color="0.9", zorder=0, label="two to four")
    axes.set(xlabel="points per vertex", ylabel="mean IoU")
    axes.legend()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of training at each scale")
    parser.add_argument("--output", type=Path, default=Path("runs/choose_scale"))
    parser.add_argument("--quick", action="store_true", help="few points, two steps")
    args = parser.parse_args()
    args.marks = 1
    torch.set_num_threads(1)
    sizes = (2, 2, 600) if args.quick else (20, 5, 10_000)
    counts = {"train": sizes[0], "test": sizes[1]}
    parts = [list(StreetScenes(n, name, sizes[2])) for name, n in counts.items()]
    results = []
    for density in (0.5, 3.0) if args.quick else (0.4, 0.7, 1.5, 3.0, 6.0, 15.0, 50.0):
        torch.manual_seed(0)
        model = Scaled(parts[0], density)
        curve, step = train(
            model, parts, RandomJitter(0.02), lambda item: item, 0, args, "point", 5
        )
        results.append((density, curve[-1][1]))
        print(f"{density:6.1f} points per vertex: mean IoU {curve[-1][1]:.3f}, {step:.3f} s/step")
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "results.json").write_text(json.dumps(results) + "\n")
    draw(results, args.output / "scale.png")


if __name__ == "__main__":
    main()
