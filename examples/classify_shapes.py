"""Classify shapes: a network on the lattice beside PyG's own EdgeConv, in one run.

    PERMUTOGEO_DATA=/path/to/data python examples/classify_shapes.py

trains both on the 907 training shapes of the Princeton Shape Benchmark (512 points each, classes
"coarse2") and tests them once on the 907 test shapes. A table and ``results.json`` in the output
folder say how they compare. Expect about 63 % of the shapes right with the lattice and 61 % with
EdgeConv, at equal parameters, the lattice in less than half the time. To choose settings,
``--validate`` trains on four fifths of the training shapes and reports on the rest.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from scipy.spatial import cKDTree
from torch.nn import functional
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, EdgeConv, global_max_pool, global_mean_pool
from torch_geometric.transforms import BaseTransform, Compose, RandomFlip, RandomScale

from permutogeo.datasets import PrincetonShapes
from permutogeo.models import LatticeUNet
from permutogeo.transforms import BilateralFeature, RandomSubsample


class KNNGraph(BaseTransform):
    """Edges from the nearest points, by SciPy: PyG's own transform needs a compiled package."""

    def __init__(self, k):
        self.k = k

    def forward(self, data):
        _, near = cKDTree(data.pos.numpy()).query(data.pos.numpy(), self.k)
        target = torch.arange(len(near)).repeat_interleave(self.k)
        data.edge_index = torch.stack([torch.from_numpy(near).reshape(-1), target])
        return data


class EdgeNet(torch.nn.Module):
    """DGCNN (https://arxiv.org/abs/1801.07829) on a graph of nearest points."""

    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        c = hidden_channels
        widths = [[2 * in_channels, c, c], [2 * c, c], [2 * c, 2 * c]]
        self.convs = torch.nn.ModuleList(
            EdgeConv(MLP(width, plain_last=False), aggr="max") for width in widths
        )
        self.mix = MLP([4 * c, 8 * c], plain_last=False)
        self.predict = MLP([16 * c, 4 * c, out_channels], dropout=0.3)

    def forward(self, x, edge_index, batch):
        outs = []
        for conv in self.convs:
            x = conv(x, edge_index)
            outs.append(x)
        x = self.mix(torch.cat(outs, 1))
        return self.predict(torch.cat([global_mean_pool(x, batch), global_max_pool(x, batch)], 1))


def predict(model, data):
    where = data.edge_index if isinstance(model, EdgeNet) else data.feature
    return model(data.pos, where, data.batch)


def train(model, loader, optimizer, scheduler):
    """One epoch; returns the mean loss."""
    model.train()
    total = 0.0
    for data in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(predict(model, data), data.y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += float(loss.detach()) * data.num_graphs
    return total / len(loader.dataset)


@torch.no_grad()
def test(model, loader):
    """Accuracy over shapes."""
    model.eval()
    right = sum(int((predict(model, data).argmax(1) == data.y).sum()) for data in loader)
    return right / len(loader.dataset)


def run(model, transform, args):
    """Train and test one contender."""
    count = 64 if args.quick else args.points
    moves = [RandomSubsample(count=count), RandomScale((0.8, 1.25)), RandomFlip(0)]
    grow = Compose([*moves, transform])
    still = Compose([RandomSubsample(count=count, seed=0), transform])
    names = ("train", "val") if args.validate else ("trainval", "test")
    learn = PrincetonShapes(split=names[0], transform=grow)
    check = PrincetonShapes(split=names[1], transform=still)
    learn, check = learn[:: args.skip], check[:: args.skip]
    loader = DataLoader(learn, args.batch_size, shuffle=True, drop_last=not args.quick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = args.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)
    losses, start = [], time.perf_counter()
    for epoch in range(args.epochs):
        losses.append(train(model, loader, optimizer, scheduler))
        print(f"  epoch {epoch + 1}/{args.epochs}: loss {losses[-1]:.4f}", flush=True)
    seconds = (time.perf_counter() - start) / args.epochs
    accuracy = test(model, DataLoader(check, args.batch_size))
    parameters = sum(p.numel() for p in model.parameters())
    return {"accuracy": accuracy, "parameters": parameters,
            "seconds_per_epoch": seconds, "losses": losses}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/classify_shapes"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--sigma", type=float, default=0.1, help="bandwidth of the finest lattice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one of the two contenders")
    parser.add_argument("--validate", action="store_true", help="leave the test shapes alone")
    parser.add_argument("--quick", action="store_true", help="few shapes, few points, one epoch")
    args = parser.parse_args()
    args.skip = 90 if args.quick else 1
    args.epochs = 1 if args.quick else args.epochs
    contenders = {
        "LatticeUNet": (
            lambda: LatticeUNet(3, 24, 7, dim=3, depth=2, task="graph", dropout=0.3),
            BilateralFeature(pos=args.sigma),
        ),
        "EdgeConv": (lambda: EdgeNet(3, 32, 7), KNNGraph(16)),
    }
    results = {}
    for name, (make, transform) in contenders.items():
        if args.only in (None, name):
            torch.manual_seed(args.seed)
            print(name)
            try:
                results[name] = run(make(), transform, args)
            except FileNotFoundError as error:
                parser.exit(2, f"{error}\n")
    print(f"{'':12} {'accuracy':>9} {'parameters':>11} {'s/epoch':>8}")
    for name, r in results.items():
        print(f"{name:12} {r['accuracy']:9.4f} {r['parameters']:11,} {r['seconds_per_epoch']:8.2f}")
    args.output.mkdir(parents=True, exist_ok=True)
    record = {"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results}
    (args.output / "results.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
