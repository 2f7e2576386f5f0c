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

from permutogeo.benchmarks.record import write_results
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


def time_in_turns(task, contenders, args):
    """Return CPU time and wall time of an epoch, from a few steps of each contender in turn.

    Interleaving them makes the ratio independent of other load on the machine.
    """
    trainers = {name: task.trainer(each, 0, 1) for name, each in contenders.items()}
    loaders = {name: task.loaders(each, args)[0] for name, each in contenders.items()}
    spent = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, loader in loaders.items():
            few = loader.dataset[: args.steps * args.batch_size]
            few = DataLoader(few, args.batch_size, drop_last=True)
            start = time.process_time(), time.perf_counter()
            trainers[name].fit(few)
            times = time.process_time() - start[0], time.perf_counter() - start[1]
            spent[name].append([each * len(loader) / len(few) for each in times])
    middle = {n: map(statistics.median, zip(*times, strict=True)) for n, times in spent.items()}
    columns = ("cpu_seconds_per_epoch", "seconds_per_epoch")
    return {name: dict(zip(columns, times, strict=True)) for name, times in middle.items()}


def race(task, contenders, args):
    """Train all for equal epochs, then retrain the faster ones for the CPU time of the slowest."""
    contenders = {n: each for n, each in contenders.items() if args.only in (None, n)}
    times = time_in_turns(task, contenders, args)
    cpu = {name: each["cpu_seconds_per_epoch"] for name, each in times.items()}
    slowest = max(cpu, key=cpu.__getitem__)
    epochs = {name: int(args.epochs * cpu[slowest] / cpu[name]) for name in contenders}
    equal, longer = {}, {}
    for name, each in contenders.items():
        equal[name] = train(name, task, each, args, args.epochs) | times[name]
        longer[name] = equal[name]
        if epochs[name] > args.epochs:
            longer[name] = train(name, task, each, args, epochs[name]) | times[name]
    return {"equal_epochs": equal, "equal_time": longer}


def print_table(title, results, figures):
    """Print mean and standard deviation of each metric over the seeds, and the cost."""
    heads = "".join(f"{figure:>17}" for figure in figures)
    print(f"\n{title}\n{'':12}{heads}  parameters  epochs  s/epoch  CPU s/epoch  CPU s")
    for name, result in results.items():
        cells = ""
        for figure in figures:
            values = [run[figure] for run in result["runs"]]
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            cells += f"{statistics.mean(values):10.4f} ±{deviation:.3f}"
        total = statistics.mean(run["cpu_seconds"] for run in result["runs"])
        seconds, cpu = result["seconds_per_epoch"], result["cpu_seconds_per_epoch"]
        sizes = f"{result['parameters']:12,}{result['epochs']:8}"
        print(f"{name:12}{cells}{sizes}{seconds:9.2f}{cpu:13.2f}{total:7.0f}")


def arguments(text, epochs, batch_size):
    """Parse the command line of both examples."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs") / name)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=batch_size)
    parser.add_argument("--rounds", type=int, default=5, help="of timing the contenders in turn")
    parser.add_argument("--steps", type=int, default=4, help="of each in a round")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", help="train only this contender")
    parser.add_argument("--validate", action="store_true", help="report on a validation split")
    parser.add_argument("--quick", action="store_true", help="few shapes, few points, one epoch")
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.points, args.batch_size, args.seeds = 1, 64, 4, [0]
        args.rounds, args.steps = 3, 1
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
    """Print both tables, and write settings and measurements to ``results.json``."""
    print_table("Equal epochs", results["equal_epochs"], figures)
    print_table("Equal CPU time", results["equal_time"], figures)
    write_results(args, **results)
