"""Lattice models and PyG's own layers at equal processor time.

    PERMUTOGEO_DATA=/path/to/data python examples/compare_models.py --task modelnet10
    python examples/compare_models.py --task streets

``modelnet10`` classifies clouds (1,024 points, ten classes), ``streets`` labels the points of
generated scans (five classes). Every contender trains for the same seconds of one core, its
neighbor search or lattice included, and is tested at several times on the way. Prints a table and
writes ``results.json`` and ``curve.png``, the score over the seconds.
"""

import argparse
import json
import statistics
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import matplotlib
import torch
from torch.nn import functional
from torch_geometric.data import Batch
from torch_geometric.nn import (
    MLP,
    EdgeConv,
    GATv2Conv,
    GCNConv,
    PointNetConv,
    PointTransformerConv,
    SAGEConv,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.transforms import Compose

from permutogeo.datasets import ModelNet10, StreetScenes
from permutogeo.models import BilateralTransformer, LatticeNet, LatticeUNet, SplatNet
from permutogeo.transforms import KNNGraph, RandomJitter, RandomStretch

LATTICE = {
    "LatticeUNet": LatticeUNet,
    "LatticeNet": partial(LatticeNet, num_layers=1, depth=2),
    "BilateralTransformer": BilateralTransformer,
    "SplatNet": SplatNet,
}
GRAPH = {
    "EdgeConv (DGCNN)": lambda a, b: EdgeConv(MLP([2 * a, b, b], plain_last=False)),
    "PointNetConv (PointNet++)": lambda a, b: PointNetConv(MLP([a + 3, b, b], plain_last=False)),
    "PointTransformerConv": PointTransformerConv,
    "GATv2Conv": lambda a, b: GATv2Conv(a, b // 4, heads=4),
    "SAGEConv": SAGEConv,
    "GCNConv": GCNConv,
}


class GraphNet(torch.nn.Module):
    """Three layers of PyG on a k-nearest-neighbor graph, with global context."""

    def __init__(self, conv, in_channels, hidden_channels, out_channels, task):
        super().__init__()
        width = [in_channels, *[hidden_channels] * 3]
        self.task = task
        self.convs = torch.nn.ModuleList(conv(a, b) for a, b in pairwise(width))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(b) for b in width[1:])
        seen = sum(width[1:])
        read = 2 * seen if task == "graph" else 3 * seen
        self.predict = MLP([read, 2 * hidden_channels, out_channels])

    def forward(self, data):
        x, outs = data.x, []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            geometry = (data.pos,) if isinstance(conv, PointNetConv | PointTransformerConv) else ()
            x = norm(conv(x, *geometry, data.edge_index)).relu()
            outs.append(x)
        x = torch.cat(outs, 1)
        whole = torch.cat([global_mean_pool(x, data.batch), global_max_pool(x, data.batch)], 1)
        if self.task == "point":
            whole = torch.cat([x, whole[data.batch]], 1)
        return self.predict(whole)


class LatticeModel(torch.nn.Module):
    """A lattice model called with a batch of PyG."""

    def __init__(self, make, data, hidden_channels, task):
        super().__init__()
        self.model = make.from_data(data, hidden_channels) if hasattr(make, "from_data") else None
        if self.model is None:  # a model with options
            self.model = make.func.from_data(data, hidden_channels, **make.keywords)
        assert self.model.task == task

    def forward(self, data):
        return self.model(data.x, data.pos, data.batch)


def load(task, quick):
    """Return training and test items with ``x``, and the augmentation."""
    if task == "streets":
        sizes = (2, 2, 600) if quick else (40, 10, 20_000)
        parts = [
            StreetScenes(n, name, sizes[2])
            for n, name in zip(sizes, ("train", "test"), strict=False)
        ]
        return [list(part) for part in parts], RandomJitter(0.02)
    parts = [list(ModelNet10(split=name)) for name in ("trainval", "test")]
    parts = [part[:: len(part) // 12] for part in parts] if quick else parts
    for item in parts[0] + parts[1]:
        item.x = item.pos
    return parts, Compose([RandomStretch(), RandomJitter(0.01)])


def score(model, items, prepare, size, task, classes):
    """Return the accuracy over graphs, or the mean intersection over union over classes."""
    model.eval()
    both = torch.zeros(classes, classes)
    for start in range(0, len(items), size):
        batch = Batch.from_data_list([prepare(item) for item in items[start : start + size]])
        with torch.no_grad():
            answer = model(batch).argmax(1)
        both += torch.bincount(batch.y * classes + answer, minlength=classes**2).view(both.shape)
    model.train()
    right = both.diagonal()
    if task == "graph":
        return float(right.sum() / both.sum())
    return float((right / (both.sum(0) + both.sum(1) - right).clamp(min=1)).mean())


def train(model, parts, augment, prepare, seed, args, task, classes):
    """Train for the given seconds; return (seconds, score) on the way."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 0.005)
    size = 16 if task == "graph" else 2
    spent, curve, turn = 0.0, [], 0
    marks = [args.seconds * (i + 1) / args.marks for i in range(args.marks)]
    steps = 0
    while marks:
        start = time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = 0.005 * max(0.02, 1 - spent / args.seconds)
        chosen = torch.randint(len(parts[0]), (size,), generator=generator)
        items = [prepare(augment(parts[0][i])) for i in chosen.tolist()]
        batch = Batch.from_data_list(items)
        loss = functional.cross_entropy(model(batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        spent += time.process_time() - start
        turn += 1
        while marks and (spent >= marks[0] or (args.quick and turn >= 2)):
            curve.append((spent, score(model, parts[1], prepare, size, task, classes)))
            marks.pop(0)
    return curve, spent / steps


def contenders(parts, task, classes, hidden, args):
    channels = parts[0][0].x.shape[1]
    for name, make in LATTICE.items():
        yield name, partial(LatticeModel, make, parts[0], hidden, task), lambda item: item
    for name, conv in GRAPH.items():
        make = partial(GraphNet, conv, channels, 2 * hidden, classes, task)
        yield name, make, KNNGraph(min(args.neighbors, 8 if args.quick else args.neighbors))


def draw(results, path, label):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, result in results.items():
        style = "-" if name in LATTICE else "--"
        seconds, scores = zip(*result["runs"][0]["curve"], strict=True)
        axes.plot(seconds, scores, style, marker=".", label=name)
    axes.set(xlabel="seconds of one core", ylabel=label)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", choices=["modelnet10", "streets"], default="streets")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--marks", type=int, default=6, help="number of tests on the way")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--neighbors", type=int, default=16)
    parser.add_argument("--only", nargs="+", help="names of contenders")
    parser.add_argument("--output", type=Path, default=Path("runs/compare_models"))
    parser.add_argument("--quick", action="store_true", help="few items, two steps")
    args = parser.parse_args()
    if args.quick:
        args.marks, args.seeds = 1, [0]
    torch.set_num_threads(1)
    task = "point" if args.task == "streets" else "graph"
    parts, augment = load(args.task, args.quick)
    classes = 1 + max(int(item.y.max()) for item in parts[0] + parts[1])
    label = "accuracy" if task == "graph" else "mean IoU"
    results = {}
    print(f"{'':28}{label:>18}  parameters  s/step")
    for name, make, prepare in contenders(parts, task, classes, 24, args):
        if args.only and name not in args.only:
            continue
        runs = []
        for seed in args.seeds:
            torch.manual_seed(seed)
            model = make()
            curve, step = train(model, parts, augment, prepare, seed, args, task, classes)
            runs.append({"seed": seed, "curve": curve, "seconds_per_step": step})
        last = [run["curve"][-1][1] for run in runs]
        spread = statistics.stdev(last) if len(last) > 1 else 0.0
        size = sum(p.numel() for p in model.parameters())
        results[name] = {"parameters": size, "runs": runs}
        step = statistics.median(run["seconds_per_step"] for run in runs)
        print(
            f"{name:28}{statistics.mean(last):10.4f} ± {spread:.3f}{size:12,}{step:8.3f}",
            flush=True,
        )
    args.output.mkdir(parents=True, exist_ok=True)
    settings = {key: str(value) for key, value in vars(args).items() if key != "output"}
    record = {"settings": settings, "torch": torch.__version__, "results": results}
    (args.output / "results.json").write_text(json.dumps(record, indent=2) + "\n")
    draw(results, args.output / "curve.png", label)


if __name__ == "__main__":
    main()
