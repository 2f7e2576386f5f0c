"""When does a CRF behind a network pay for its time?
==================================================

Labels generated street scans, where each point has its height and a noisy reflectance. A network
that sees each point by itself, and a LatticeUNet, are trained for the same seconds of one core
without a CRF, with a CRF at the learning rate of the network, and with a CRF at a rate of its own
(``parameter_groups``). Prints the mean IoU on test scenes and how far the weight of the kernel
moved, and writes ``train_crf.json``. Expect the CRF to pay behind the point-wise network only.

::

    python examples/train_crf.py
"""

import argparse
import time
from pathlib import Path

import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import MLP

from permutogeo import suggest_scale
from permutogeo.benchmarks.record import write_table
from permutogeo.datasets import StreetScenes
from permutogeo.models import LatticeUNet
from permutogeo.nn import DenseCRF, GaussianKernel, parameter_groups
from permutogeo.train import confusion, scores

RATE, CRF_RATE = 0.003, 0.1


class Segmenter(torch.nn.Module):
    """A network, and a CRF over positions on its logits."""

    def __init__(self, lattice, crf, scale, classes):
        super().__init__()
        self.net = (
            LatticeUNet(4, 12, classes, dim=3, depth=2, scale=scale)
            if lattice
            else MLP([4, 64, 64, classes])
        )
        self.lattice, self.crf = lattice, None
        if crf:
            kernel = GaussianKernel(3, sigma=0.5, weight=1.0, learn_sigma=True, learn_weight=True)
            self.crf = DenseCRF(classes, [kernel], "full", 3, learn_compatibility=True)

    def forward(self, scene):
        logits = self.net(scene.x, scene.pos) if self.lattice else self.net(scene.x)
        return logits if self.crf is None else self.crf(logits, [scene.pos])


def make_scenes(count, split, points):
    """Return scenes with height and three channels of reflectance, of which little is told."""
    typical = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    scenes = []
    for i, scene in enumerate(StreetScenes(count, split, points)):
        noise = torch.randn(points, 3, generator=torch.Generator().manual_seed(i))
        x = torch.cat([scene.x / 5, typical[scene.y] + 2 * noise], 1)
        scenes.append(Data(x=x, pos=scene.pos, y=scene.y))
    return scenes


def train(model, scenes, crf_rate, seconds, most_steps=None):
    """Train for the given processor time; return the seconds of a step."""
    model(scenes[0])  # compiles kernels
    optimizer = torch.optim.AdamW(parameter_groups(model, RATE, crf_rate))
    rates = [group["lr"] for group in optimizer.param_groups]
    start, steps, spent = time.process_time(), 0, 0.0
    while spent < seconds and steps != most_steps:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (1.02 - spent / seconds)
        scene = scenes[steps % len(scenes)]
        loss = functional.cross_entropy(model(scene), scene.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        spent = time.process_time() - start
    return spent / steps


@torch.no_grad()
def evaluate(model, scenes):
    model.eval()
    return scores(sum(confusion(model(each).argmax(1), each.y, 5) for each in scenes))["mean_iou"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of training of each network")
    parser.add_argument("--output", type=Path, default=Path("runs/train_crf"))
    parser.add_argument("--quick", action="store_true", help="few points, two steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    points = 400 if args.quick else 5000
    learn = make_scenes(2 if args.quick else 16, "train", points)
    test = make_scenes(1 if args.quick else 8, "test", points)
    scale = suggest_scale(learn)
    rows = []
    print(f"{'':34}mean IoU  s/step  kernel weight")
    for lattice in (False, True):
        for crf, rate in (("no CRF", None), ("CRF", RATE), ("CRF, own rate", CRF_RATE)):
            torch.manual_seed(0)
            model = Segmenter(lattice, crf != "no CRF", scale, 5)
            step = train(model, learn, rate, args.seconds, 2 if args.quick else None)
            name = f"{'LatticeUNet' if lattice else 'point-wise network'}, {crf}"
            weight = None if model.crf is None else float(model.crf.kernels[0][0].weight.detach())
            iou = evaluate(model, test)
            moved = "" if weight is None else f"1 → {weight:.2f}"
            rows.append([name, f"{iou:.3f}", f"{step:.3f}", moved])
            print(f"{name:34}{iou:8.3f}{step:8.3f}  {moved}", flush=True)
    title = f"Street scans: networks with and without a CRF after {args.seconds:g} s of one core"
    columns = ["", "mean IoU", "s/step", "kernel weight"]
    write_table(args.output / "train_crf.json", title, columns, rows)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/train_crf.png"
