"""Shared by the shape examples: the EdgeConv baseline, training at equal cost, and the tables."""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch_geometric.data import Dataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, EdgeConv, global_max_pool, global_mean_pool
from torch_geometric.transforms import BaseTransform, Compose

from permutogeo.benchmarks.record import write_results, write_table
from permutogeo.benchmarks.timing import table
from permutogeo.train import Metric, Trainer
from permutogeo.transforms import RandomSubsample


class EdgeNet(torch.nn.Module):
    """DGCNN (https://arxiv.org/abs/1801.07829): PyG's EdgeConv on a k-nearest-neighbor graph."""

    def __init__(self, in_channels, hidden_channels, out_channels, task, dropout=0.3):
        super().__init__()
        c, last = hidden_channels, hidden_channels * (1 if task == "point" else 2)
        widths = [[2 * in_channels, c, c], [2 * c, c], [2 * c, last]]
        self.task = task
        self.convs = torch.nn.ModuleList(
            EdgeConv(MLP(width, plain_last=False), aggr="max") for width in widths
        )
        self.mix = MLP([2 * c + last, 4 * last], plain_last=False)
        head = [2 * c + 5 * last, 4 * c, 2 * c] if task == "point" else [8 * last, 4 * c]
        self.predict = MLP([*head, out_channels], dropout=dropout)

    def forward(self, x, edge_index, batch):
        outs = []
        for conv in self.convs:
            x = conv(x, edge_index)
            outs.append(x)
        x = torch.cat(outs, 1)
        mixed = self.mix(x)
        whole = global_max_pool(mixed, batch)
        if self.task == "point":
            return self.predict(torch.cat([x, whole[batch]], 1))
        return self.predict(torch.cat([global_mean_pool(mixed, batch), whole], 1))


def geometry_of(data):
    """Return the second input of a network: edges of a graph, or features of a lattice."""
    return data.edge_index if "edge_index" in data else data.feature


@dataclass(frozen=True)
class Contender:
    """A network, the transform that prepares its input, and its learning rate."""

    make: Callable[[], torch.nn.Module]
    transform: BaseTransform
    lr: float


@dataclass(frozen=True)
class Task:
    """Training and test shapes, augmentation, loss and metric."""

    learn: Dataset
    check: Dataset
    augment: BaseTransform
    step: Callable
    metric: Metric

    def loaders(self, contender, args):
        """Return the loaders of training and test batches for a contender."""
        learn, check = copy.copy(self.learn), copy.copy(self.check)
        learn.transform = Compose(
            [RandomSubsample(count=args.points), self.augment, contender.transform]
        )
        check.transform = Compose([RandomSubsample(count=args.points, seed=0), contender.transform])
        batches = DataLoader(learn, args.batch_size, shuffle=True, drop_last=True)
        return batches, DataLoader(check, args.batch_size)

    def trainer(self, contender, seed, epochs):
        torch.manual_seed(seed)
        return Trainer(
            contender.make(), self.step, lambda p: torch.optim.AdamW(p, contender.lr),
            schedule="one_cycle", epochs=epochs, seed=seed, metric=self.metric, progress=False,
        )  # fmt: skip


def train(name, task, contender, args, epochs):
    """Train and test a contender once per seed."""
    learn, check = task.loaders(contender, args)
    runs = []
    for seed in args.seeds:
        trainer, start = task.trainer(contender, seed, epochs), time.process_time()
        losses = [row["train_loss"] for row in trainer.fit(learn)]
        seconds = time.process_time() - start
        figures = trainer.evaluate(check)
        runs.append({"seed": seed, "cpu_seconds": seconds, **figures, "train_losses": losses})
        shown = ", ".join(f"{key} {value:.4f}" for key, value in figures.items())
        print(f"{name}, seed {seed}, {epochs} epochs, {seconds:.0f} s of CPU: {shown}", flush=True)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    return {"parameters": parameters, "epochs": epochs, "runs": runs}


def cpu_seconds(result):
    return statistics.median(run["cpu_seconds"] for run in result["runs"])


def race(task, contenders, args):
    """Train all for equal epochs, then the faster ones anew for the CPU time of the slowest."""
    contenders = {n: each for n, each in contenders.items() if args.only in (None, n)}
    results = {n: train(n, task, each, args, args.epochs) for n, each in contenders.items()}
    cpu = {name: cpu_seconds(result) for name, result in results.items()}
    for name, each in contenders.items():
        # The first epoch of a --quick run compiles kernels, so that its time says nothing.
        ratio = 2 if args.quick else max(cpu.values()) / cpu[name]
        epochs = int(args.epochs * ratio)
        if epochs > args.epochs:
            results[f"{name}, equal time"] = train(name, task, each, args, epochs)
    return results


def arguments(text, epochs, batch_size):
    """Parse the command line of both examples."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs") / name)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=batch_size)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", help="train only this contender")
    parser.add_argument("--validate", action="store_true", help="report on a validation split")
    parser.add_argument("--quick", action="store_true", help="few shapes, few points, one epoch")
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.points, args.batch_size, args.seeds = 1, 64, 4, [0]
    return args


def splits(dataset, args):
    """Return the training shapes and the test shapes."""
    names = ("train", "val") if args.validate else ("trainval", "test")
    try:
        parts = [dataset(split=name) for name in names]
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    return [part[:: max(1, len(part) // 8)] if args.quick else part for part in parts]


def report(results, figures, args):
    """Print and write the table, with mean and deviation over the seeds, and all measurements."""
    columns, rows = ["", *figures, "parameters", "epochs", "CPU seconds"], []
    for name, result in results.items():
        scores = [[run[figure] for run in result["runs"]] for figure in figures]
        deviations = [statistics.stdev(each) if len(each) > 1 else 0.0 for each in scores]
        cells = [
            f"{statistics.mean(each):.3f} ± {deviation:.3f}"
            for each, deviation in zip(scores, deviations, strict=True)
        ]
        size, epochs = f"{result['parameters']:,}", str(result["epochs"])
        rows.append([name, *cells, size, epochs, f"{cpu_seconds(result):.0f}"])
    title = f"{args.points} points a shape, {len(args.seeds)} seeds"
    table(title, columns, rows)
    write_table(args.output / "table.json", title, columns, rows)
    write_results(args, results=results)
