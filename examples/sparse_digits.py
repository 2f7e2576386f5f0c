"""Recognize digits from few samples: the paper's ``tab:all-results``.

    PERMUTOGEO_DATA=/path/to/data python examples/sparse_digits.py

trains LeNet and its twin with a bilateral first layer of radius 2 (BNN) on the digits of MNIST as
they are, and on samples of 100 %, 60 % and 20 % of their pixels' number at random continuous
positions, and tests each on all four. LeNet reads the samples interpolated to the grid. Beyond the
paper, a network that stays on the lattice (LatticeCNet) reads only samples with ink. All train
alike, for as many epochs. A table beside the paper's, ``results.json`` and curves are left in the
output folder (docs/results.md); a run that was interrupted goes on where it was.
"""

from functools import cache

import torch
from _networks import (
    SpatialTwin,
    arguments,
    count_parameters,
    draw_curves,
    keep_small,
    missing,
    operations,
    record,
    shown,
    trainer_of,
)
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import BaseTransform, Compose

from permutogeo.datasets import SparseMNIST
from permutogeo.models import BNNLeNet, LatticeCNet
from permutogeo.transforms import BilateralFeature

SIDE = 28
RATES = {"original": None, "100%": 1.0, "60%": 0.6, "20%": 0.2}
PAPER = {
    "LeNet original": (0.9919, 0.9660, 0.9348, 0.6434),
    "BNN original": (0.9903, 0.9844, 0.9534, 0.5767),
    "LeNet 100%": (0.9856, 0.9809, 0.9678, 0.7386),
    "BNN 100%": (0.9900, 0.9863, 0.9699, 0.6910),
    "LeNet 60%": (0.9848, 0.9821, 0.9740, 0.8151),
    "BNN 60%": (0.9885, 0.9864, 0.9771, 0.8214),
    "LeNet 20%": (0.9763, 0.9754, 0.9695, 0.8928),
    "BNN 20%": (0.9728, 0.9735, 0.9701, 0.9042),
}


class Ink(BaseTransform):
    """Keeps the points that are not black, and of a digit without any the brightest."""

    def forward(self, data):
        kept = data.x[:, 0] >= min(0.1, float(data.x.max()))
        data.x, data.pos = data.x[kept], data.pos[kept]
        return data


def network(kind, extent):
    """A network and what it does to its input; features lie in [0, extent]."""
    feature = BilateralFeature(pos=(SIDE - 1) / extent)
    if kind == "LeNet":
        model = SpatialTwin(BNNLeNet(1, 10, side=SIDE), 5, SIDE)
        return model, BilateralFeature(pos=1.0)
    if kind == "BNN":
        return BNNLeNet(1, 10, extent=extent, side=SIDE, radius=2), feature
    model = LatticeCNet(1, 24, 10, dim=2, extent=extent, depth=3)
    return model, Compose([Ink(), feature])


@cache
def digits_of(split, rate, seed):
    return missing(SparseMNIST, split=split, fraction=RATES[rate], seed=seed)


def loader(split, rate, transform, args, count):
    """Batches of the first digits of a split; those to train with are sampled anew each time."""
    digits = digits_of(split, rate, None if split == "train" else args.seed)[:count]
    digits.transform = transform
    return DataLoader(digits, args.batch_size, shuffle=split == "train")


def train(kind, rate, args):
    """Train a network on one rate, and test it on all."""
    name = f"{kind} {rate}"
    torch.manual_seed(args.seed)
    model, transform = network(kind, args.extent)
    trainer = trainer_of(
        name, model, args, args.lr, args.epochs, 10, "accuracy", optimizer="adam",
        schedule="cosine", report=shown(name, "accuracy"),
    )  # fmt: skip
    val = loader("val", rate, transform, args, args.val)
    rows = trainer.fit(loader("train", rate, transform, args, args.train), val)
    keep_small(name, model, args)
    figures = {
        test: trainer.evaluate(loader("test", test, transform, args, args.test))["accuracy"]
        for test in RATES
    }
    paper = dict(zip(RATES, PAPER.get(name, ()), strict=False))
    batch = next(iter(val))
    count = operations(model, lambda m: m(batch.x, batch.feature, batch.batch)) / batch.num_graphs
    return rows, {
        **figures,
        **{f"paper: {test}": paper.get(test, "") for test in RATES},
        "parameters": count_parameters(model),
        "million products": count,
        "steps": rows[-1]["steps"],
        "seconds": round(rows[-1]["seconds"], 1),
    }


def main():
    kinds = ("LeNet", "BNN", "LatticeCNet")
    parser = arguments(
        __doc__, epochs=4, batch_size=64, lr=1e-3, train=55000, val=1000, test=10000, extent=20.0
    )
    parser.add_argument("--kinds", choices=kinds, nargs="+", default=list(kinds))
    parser.add_argument("--rates", choices=RATES, nargs="+", default=list(RATES))
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.batch_size, args.rates = 2, 8, ["20%"]
        args.train, args.val, args.test = 16, 8, 8
    args.output.mkdir(parents=True, exist_ok=True)
    runs, table = {}, {}
    for rate in args.rates:
        for kind in args.kinds:
            name = f"{kind} {rate}"
            runs[name], table[name] = train(kind, rate, args)
    curves = {n: [(row["epoch"], row["accuracy"]) for row in rows] for n, rows in runs.items()}
    curve = args.output / "curve.png"
    draw_curves(curve, curves, "epoch", "validation accuracy")
    record(
        args, "Subsampled digits", {"Trained on (rows), tested on (columns)": table},
        {"rows": runs}, curves={"Validation accuracy": curve},
    )  # fmt: skip


if __name__ == "__main__":
    main()
