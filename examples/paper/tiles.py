"""Tile segmentation with bilateral and spatial networks: the paper's ``fig:slate_experiment``
===========================================================================================

Generates images of a tile before a background, both of random colors, and trains networks of 32,
16 and 2 filters to segment it: bilateral filters of 63 taps over position and color, and spatial
filters of 9 x 9 to 21 x 21; beyond the paper, a U-Net of about the same size without a lattice.
An epoch has 1,000 images. The bilateral network trains for five epochs, each spatial one until its
validation IoU is 0.95 or for half an hour. Writes a table, ``results.json``, curves, a picture, a
page and the weights ``tiles.safetensors``; resumes if interrupted. Expect the bilateral network to
reach 0.95 after 80 steps (docs/reproduction.md).

::

    python examples/paper/tiles.py
"""

import copy
import math
from itertools import pairwise

import torch
from _networks import choose_lr, epoch_printer, first_at, trainer_of
from torch.nn import functional
from torch.utils.data import RandomSampler
from torch_geometric.loader import DataLoader

from permutogeo.benchmarks.experiment import arguments, record
from permutogeo.benchmarks.model_size import count_parameters
from permutogeo.datasets import Tiles
from permutogeo.models import BilateralNet
from permutogeo.transforms import BilateralFeature
from permutogeo.viz import curve_chart, image_panels

EPOCH, GOAL = 1000, 0.95
# The paper's scales: pixels times 0.05, colors in [0, 1] times 10.
FEATURE = BilateralFeature(pos=20.0, rgb=0.1)
PAPER = {  # parameters, and epochs of 10,000 images that it trains for
    "BNN": ("40k", 30), "CNN 9x9": ("52k", 500), "CNN 13x13": ("", 500),
    "CNN 17x17": ("", 500), "CNN 21x21": ("282k", 500), "U-Net": ("", ""),
}  # fmt: skip
# Chosen by --search 2500 among TRIED; of the spatial networks, for all but 17x17 and U-Net.
LR = {name: {"BNN": 3.0, "U-Net": 0.1}.get(name, 0.003) for name in PAPER}
TRIED = {True: [0.3, 1.0, 3.0], False: [0.001, 0.003, 0.01, 0.03]}


class SpatialNet(torch.nn.Module):
    """Three spatial convolutions over the pixels of whole images."""

    def __init__(self, kernel, side=64):
        super().__init__()
        self.side = side
        first, second, last = (
            torch.nn.Conv2d(a, b, kernel, padding=kernel // 2)
            for a, b in ((3, 32), (32, 16), (16, 2))
        )
        for layer in (first, second, last):
            torch.nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            torch.nn.init.zeros_(layer.bias)
        self.layers = torch.nn.ModuleList([first, second, last])

    def forward(self, x, feature, batch=None):
        first, second, last = self.layers
        grid = x.view(-1, self.side, self.side, 3).permute(0, 3, 1, 2)
        grid = convolve(convolve(grid, first).relu(), second).relu()
        return convolve(grid, last).permute(0, 2, 3, 1).reshape(-1, 2)


class UNet(torch.nn.Module):
    """Four levels of convolutions with batch normalization, with skip connections."""

    def __init__(self, widths=(8, 16, 32, 48), side=64):
        super().__init__()
        self.side = side
        self.down = torch.nn.ModuleList(map(unit, (3, *widths[:-1]), widths))
        self.up = torch.nn.ModuleList(map(unit, map(sum, pairwise(widths)), widths[:-1]))
        self.last = torch.nn.Conv2d(widths[0], 2, 1)

    def forward(self, x, feature, batch=None):
        grid, kept = x.view(-1, self.side, self.side, 3).permute(0, 3, 1, 2), []
        for level, layer in enumerate(self.down):
            grid = layer(functional.max_pool2d(grid, 2) if level else grid)
            kept.append(grid)
        grid = kept.pop()
        for layer in reversed(self.up):
            large = functional.interpolate(grid, scale_factor=2.0)
            grid = layer(torch.cat([large, kept.pop()], 1))
        return self.last(grid).permute(0, 2, 3, 1).reshape(-1, 2)


def unit(before, after):
    conv = torch.nn.Conv2d(before, after, 3, padding=1, bias=False)
    return torch.nn.Sequential(conv, torch.nn.BatchNorm2d(after), torch.nn.ReLU())


def convolve(x, layer):
    """Apply a spatial layer in the Fourier domain.

    torch's direct convolution takes seconds per image for kernels above 13 x 13 on a CPU.
    """
    side, half = x.shape[-1], layer.padding[0]
    # The two borders share one margin, since the transform is periodic.
    size = [8 * math.ceil((side + half) / 8)] * 2
    spectrum = torch.fft.rfft2(x, size).permute(2, 3, 0, 1)
    filters = torch.fft.rfft2(layer.weight, size).conj().permute(2, 3, 1, 0)
    out = torch.fft.irfft2((spectrum @ filters).permute(2, 3, 0, 1), size)
    return out.roll((half, half), (2, 3))[..., :side, :side] + layer.bias[:, None, None]


def make(name, args):
    torch.manual_seed(args.seed)
    if name == "BNN":
        options = {"init": "kaiming", "filler": args.filler or None}
        return BilateralNet(3, (32, 16), 2, dim=5, plain=True, **options)
    if name == "U-Net":
        return UNet()
    return SpatialNet(int(name.rpartition("x")[2]))


def load(split, count, args):
    return Tiles(count, split, seed=args.seed, pre_transform=FEATURE)


def loaders(parts, args, count):
    """Return loaders of ``count`` random training images and of the validation images."""
    chosen = RandomSampler(parts["train"], num_samples=count)
    learn = DataLoader(parts["train"], args.batch_size, sampler=chosen)
    return learn, DataLoader(parts["val"], args.batch_size)


def choose(name, parts, args):
    """Return the learning rate with the lowest validation loss after ``args.search`` images."""

    def loss(lr):
        trainer = trainer_of(make(name, args), args, lr, 1, 2, "mean_iou")
        return trainer.fit(*loaders(parts, args, args.search))[-1]["val_loss"]

    return choose_lr(name, loss, TRIED[name == "BNN"], args)


def race(name, parts, args):
    """Train one network; return it with its log and its row of the table."""
    lr = choose(name, parts, args) if args.search else LR[name]
    bilateral = name == "BNN"
    count = args.epochs if bilateral else args.most_epochs
    trainer = trainer_of(
        make(name, args), args, lr, round(count * EPOCH / args.measure), 2, "mean_iou", name,
        report=epoch_printer(name, "mean_iou"),
        stop=None if bilateral else lambda row: (
            row["mean_iou"] >= GOAL or row["seconds"] >= 60 * args.minutes
        ),
    )  # fmt: skip
    rows = trainer.fit(*loaders(parts, args, args.measure))
    trainer.load_best()
    test = trainer.evaluate(DataLoader(parts["test"], args.batch_size))
    reached, images = first_at(rows, "mean_iou", GOAL), args.batch_size
    size, epochs = PAPER[name]
    row = {
        "parameters": count_parameters(trainer.model),
        "paper": size,
        f"steps to {GOAL}": reached and reached["steps"],
        "seconds": reached and round(reached["seconds"], 1),
        "epochs": reached and reached["steps"] * images / EPOCH,
        "best val IoU": max(row["mean_iou"] for row in rows),
        "test IoU": test["mean_iou"],
        "steps": rows[-1]["steps"],
        "seconds in all": round(rows[-1]["seconds"], 1),
        "lr": lr,
        "paper's epochs": epochs,
    }
    return trainer.model, rows, row


@torch.no_grad()
def draw(models, data, path):
    """Draw an image, its tile, and the prediction of each network."""
    side = data.height
    panels = {"image": data.x.view(side, side, 3).clamp(0, 1), "tile": data.y.view(side, side)}
    for name, model in models.items():
        panels[name] = model(data.x, data.feature).argmax(1).view(side, side)
    images = {name: panel.float().numpy() for name, panel in panels.items()}
    image_panels(images, path, width=192)


def main():
    parser = arguments(
        __doc__, epochs=5, most_epochs=500, minutes=30.0, measure=200, batch_size=10, val=100,
        test=200, filler=0.0, search=0,
    )  # fmt: skip
    parser.add_argument("--only", choices=PAPER, nargs="+", default=list(PAPER))
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.most_epochs, args.measure, args.val, args.test = 0.024, 0.008, 8, 4, 4
        args.batch_size, args.only = 4, ["BNN", "CNN 9x9", "U-Net"]
    args.output.mkdir(parents=True, exist_ok=True)
    counts = {"train": 24 if args.quick else EPOCH, "val": args.val, "test": args.test}
    parts = {split: load(split, count, args) for split, count in counts.items()}
    models, runs, table = {}, {}, {}
    for name in args.only:
        models[name], runs[name], table[name] = race(name, parts, args)
        models[name] = copy.deepcopy(models[name]).eval()
    if "BNN" in models:
        models["BNN"].save_pretrained(args.output / "tiles.safetensors")
    curves = {
        name: [(row["steps"] * args.batch_size / EPOCH, row["mean_iou"]) for row in rows]
        for name, rows in runs.items()
    }
    curve, picture = args.output / "curve.png", args.output / "tiles.png"
    curve_chart(curve, curves, "epochs of 1,000 images", "validation IoU", level=GOAL)
    draw(models, parts["test"][0], picture)
    record(
        args, "Segmenting tiles", {"Tiles": table}, {"A test image": picture},
        {"Validation IoU": curve}, rows=runs,
    )  # fmt: skip


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/tiles.png"
