"""Lattice models and networks of PyG's layers at equal processor time and equal parameters
========================================================================================

``modelnet10`` and ``shapes`` classify clouds, ``parts`` labels their points, ``meshes`` the
vertices of meshes, ``streets`` and ``rooms`` the points of generated scans. Every contender has
about the same number of parameters and trains for the same seconds of one core. Lattices are built
in these seconds; the graphs of the baselines are computed before them. Scores on the way are of the
validation part. The first seed trains with each learning rate; the one with the best validation
score is taken for all seeds, and only its runs are reported. Another comparison can take the rates
from its tables (``--rates-from docs/runs``), but for contenders that have changed since
(``--choose-rates NAME``). A run is written when it is done, and a repeated command goes on with
those that are missing. Prints a table, writes it to ``TASK.json`` and draws the score over the
seconds to ``TASK.png``. With ``--steps`` nothing is trained: a table of the time of a step, with
contenders in turn, so that the load of the machine is the same for all, is written to
``steps.json``.

::

    PERMUTOGEO_DATA=/path/to/data python examples/compare_models.py --task modelnet10 meshes
    python examples/compare_models.py --task streets rooms
    python examples/compare_models.py --task streets rooms --steps
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import matplotlib
import torch
from _contenders import LATTICE, as_input, build
from _tasks import TASKS
from torch.nn import functional
from torch_geometric.data import Batch

from permutogeo.benchmarks.baselines import BASELINES, prepare
from permutogeo.benchmarks.model_size import count_parameters
from permutogeo.benchmarks.record import write_table

# Most telling first, so that a run that is stopped has them.
ORDER = [
    *("LatticeUNet", "PointNet++", "DGCNN", "PointTransformer", "DiffusionNet", "SAGE"),
    *("BilateralTransformer", "LatticeNet", "GCN", "GAT", "SplatNet"),
]
RATES, WARMUP = (0.002, 0.008), 0.05
DEFAULT_SECONDS, DEFAULT_SEEDS = 20.0, [0, 1, 2]
# Parts of the time after which the validation part is scored.
MARKS = (0.1, 0.25, 0.5)
SCANS = ("streets", "rooms")  # too large for the eigenvectors of DiffusionNet
FIGURES = ("seconds_per_step", "seconds_per_epoch", "peak_megabytes")


def score(model, items, task):
    """Return the accuracy over graphs, or the mean intersection over union of the classes.

    With categories it is the mean over the items, each over the classes of its category, as usual
    for part segmentation; a class that neither is there nor predicted counts as 1.
    """
    model.eval()
    found, categories = [], []
    for start in range(0, len(items), task.batch_size):
        chosen = items[start : start + task.batch_size]
        batch = Batch.from_data_list([as_input(item, task) for item in chosen])
        with torch.no_grad():
            answer = task.logits(model, batch).argmax(1)
        found.append(task.counts(batch, answer))
        categories += batch.category.tolist() if task.legal is not None else []
    model.train()
    if task.legal is not None:
        right, union = overlap(torch.cat(found))
        iou = torch.where(union > 0, right / union.clamp(min=1), 1.0)
        legal = task.legal[categories]
        return float(((iou * legal).sum(1) / legal.sum(1)).mean())
    both = sum(found)
    right, union = overlap(both)
    if task.kind == "graph":
        return float(right.sum() / both.sum())
    return float((right / union.clamp(min=1))[union > 0].mean())


def overlap(counts):
    """Return the intersection and the union of the points of each class and its answers."""
    right = counts.diagonal(dim1=-2, dim2=-1)
    return right, counts.sum(-2) + counts.sum(-1) - right


def step(model, items, task, optimizer=None):
    """Train on a few items."""
    augmented = [as_input(task.augment(item), task) for item in items]
    batch = Batch.from_data_list(augmented)
    loss = functional.cross_entropy(task.logits(model, batch), batch.y)
    loss.backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()


def train(model, parts, task, seconds, rate, seed, most_steps=None):
    """Train for the given processor time; return scores on the way and the time of a step."""
    generator = torch.Generator().manual_seed(seed)
    step(model, parts[0][: task.batch_size], task)  # compiles kernels
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    marks = [seconds * mark for mark in MARKS]
    spent, steps, curve, order = 0.0, 0, [], []
    while spent < seconds and (most_steps is None or steps < most_steps):
        start = time.process_time()
        done = spent / seconds
        for group in optimizer.param_groups:
            group["lr"] = rate * min((done + 1e-3) / WARMUP, 1.02 - done)
        if len(order) < task.batch_size:
            order = torch.randperm(len(parts[0]), generator=generator).tolist()
        chosen, order = order[: task.batch_size], order[task.batch_size :]
        step(model, [parts[0][i] for i in chosen], task, optimizer)
        steps += 1
        spent += time.process_time() - start
        if marks and spent >= marks[0]:
            curve.append((spent, score(model, parts[1], task)))
            marks = [mark for mark in marks if mark > spent]
    curve.append((spent, score(model, parts[1], task)))
    return curve, spent / steps


def run(name, task, rate, seed, args, path):
    """Train and test a contender once and write the result; called in a process of its own."""
    torch.manual_seed(seed)
    model = build(name, task, args.parameters)
    before = resident_memory()
    most = 2 if args.quick else None
    curve, per_step = train(model, task.parts, task, args.seconds, rate, seed, most)
    record = {
        "name": name,
        "rate": rate,
        "seed": seed,
        "parameters": count_parameters(model),
        "test": score(model, task.parts[2], task),
        "curve": curve,
        "seconds_per_step": per_step,
        "seconds_per_epoch": per_step * len(task.parts[0]) / task.batch_size,
        "peak_megabytes": max(0.0, peak_memory() - before),
    }
    path.write_text(json.dumps(record, indent=2) + "\n")


def resident_memory():
    fields = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Arena:
    """A task with its items prepared for each kind of network, once."""

    def __init__(self, name, args):
        self.name, self.folder = name, args.output / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.task = TASKS[name](args.quick)
        self.prepared = {}

    def takes(self, name):
        return not (name == "DiffusionNet" and self.name in SCANS)

    def compete(self, name, rate, seed, args):
        """Run a contender unless it has run, in a process of its own to tell its memory apart."""
        if not self.takes(name):
            return
        path = self.folder / f"{name}_{rate:g}_{seed}.json"
        if path.is_file():
            return
        kind = BASELINES.get(name)
        if kind not in self.prepared:
            parts = [[prepare(item, name) for item in part] for part in self.task.parts]
            self.prepared[kind] = replace(self.task, parts=parts)
        arguments = (name, self.prepared[kind], rate, seed, args, path)
        process = multiprocessing.get_context("fork").Process(target=run, args=arguments)
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(process.exitcode)
        valid = json.loads(path.read_text())["curve"][-1][1]
        label = f"{self.task.metric}, validation"
        print(f"{self.name}, {name}, rate {rate:g}, seed {seed}: {label} {valid:.4f}", flush=True)

    def time_steps(self, names, args):
        """Write the median processor time of a step of each contender, unless it is there."""
        path = self.folder / "steps.json"
        if path.is_file():
            return
        task, size, contenders = self.task, self.task.batch_size, {}
        for name in names:
            if self.takes(name):
                model = build(name, task, args.parameters)
                items = [prepare(item, name) for item in task.parts[0][: 2 * size]]
                contenders[name] = model, torch.optim.AdamW(model.parameters()), items
        times = {name: [] for name in contenders}
        for i in range(3 if args.quick else 12):
            for name, (model, optimizer, items) in contenders.items():
                start = time.process_time()
                step(model, (items[:size], items[-size:])[i % 2], task, optimizer)
                times[name].append(time.process_time() - start)
        # The first two compile kernels.
        medians = {name: statistics.median(found[2:]) for name, found in times.items()}
        path.write_text(json.dumps(medians, indent=2) + "\n")

    def best_rate(self, name, seed):
        """Return the learning rate with the best validation score, ``None`` without a run."""
        runs = [run for run in self.runs() if (run["name"], run["seed"]) == (name, seed)]
        return max(runs, key=lambda run: run["curve"][-1][1])["rate"] if runs else None

    def rates_to_try(self, name, args):
        """Return the learning rate of a contender in the table of another comparison, or all."""
        if args.rates_from is not None and name not in args.choose_rates:
            table = json.loads((args.rates_from / f"compare_{self.name}.json").read_text())
            column = table["columns"].index("rate")
            if found := [float(row[column]) for row in table["rows"] if row[0] == name]:
                return found
        return RATES[:1] if args.quick else RATES

    def runs(self):
        """Return all runs that are there."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*_*.json"))]


def summarize(arena, args):
    """Print and write the table of a task, and draw its curves."""
    runs = {}
    for name in ORDER:
        chosen = (name, arena.best_rate(name, args.seeds[0]))
        if found := [r for r in arena.runs() if (r["name"], r["rate"]) == chosen]:
            runs[name] = found
    ranked = sorted(runs, key=lambda name: -statistics.mean(r["test"] for r in runs[name]))
    columns = ["", arena.task.metric, "seeds", "rate", "parameters"]
    columns += ["steps", "s/step", "s/epoch", "peak MB"]
    rows = []
    for name in ranked:
        tests = [r["test"] for r in runs[name]]
        score = f"{statistics.mean(tests):.3f}"
        if len(tests) > 1:
            score += f" ± {statistics.stdev(tests):.3f}"
        step, epoch, peak = (statistics.median(r[key] for r in runs[name]) for key in FIGURES)
        size = f"{runs[name][0]['parameters']:,}"
        steps = statistics.median(r["curve"][-1][0] / r["seconds_per_step"] for r in runs[name])
        cells = [score, str(len(tests)), f"{runs[name][0]['rate']:g}", size, f"{steps:.0f}"]
        cells += [f"{step:.3f}", f"{epoch:.1f}", f"{peak:.0f}"]
        rows.append([name, *cells])
    title = f"{arena.name}: test {arena.task.metric} after {args.seconds:g} s of one core"
    print(f"\n{title}")
    for row in [columns, *rows]:
        print(f"{row[0]:22}" + "".join(f"{cell:>16}" for cell in row[1:]))
    data = "" if arena.name in SCANS else "PERMUTOGEO_DATA=/path/to/data "
    command = f"{data}python examples/compare_models.py --task {arena.name}"
    if args.seconds != DEFAULT_SECONDS:
        command += f" --seconds {args.seconds:g}"
    if args.seeds != DEFAULT_SEEDS:
        command += f" --seeds {' '.join(map(str, args.seeds))}"
    if args.rates_from is not None:
        command += f" --rates-from {args.rates_from}"
    if args.choose_rates:
        command += f" --choose-rates {' '.join(args.choose_rates)}"
    if args.only is not None:
        command += f" --only {' '.join(args.only)}"
    write_table(args.output / f"{arena.name}.json", title, columns, rows, command)
    label = f"{arena.task.metric}, validation"
    draw(runs, args.output / f"{arena.name}.png", label, arena.name)


def summarize_steps(arenas, args):
    """Print and write the table of the time of a step."""
    found = [json.loads((arena.folder / "steps.json").read_text()) for arena in arenas]
    columns = ["", *(arena.name for arena in arenas)]
    rows = [
        [name, *(f"{1000 * times[name]:.0f}" if name in times else None for times in found)]
        for name in ORDER
        if any(name in times for times in found)
    ]
    title = "Milliseconds of processor time of a step, contenders in turn"
    print(title)
    for row in [columns, *rows]:
        print(f"{row[0]:22}" + "".join(f"{cell or '':>12}" for cell in row[1:]))
    write_table(args.output / "steps.json", title, columns, rows)


def draw(by_name, path, label, title):
    """Draw the mean score on the validation part over the seconds."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    axes.set_prop_cycle(color=[*pyplot.get_cmap("tab10").colors, "black"])  # one for each name
    for name, found in by_name.items():
        points = zip(*(run["curve"] for run in found), strict=False)
        means = [[statistics.mean(each) for each in zip(*same, strict=True)] for same in points]
        seconds, scores = zip(*means, strict=True)
        style = {"linewidth": 2.2} if name in LATTICE else {"linestyle": "--", "linewidth": 1.2}
        axes.plot(seconds, scores, marker=".", label=name, **style)
    axes.set(xlabel="seconds of one core", ylabel=label, title=title)
    figure.legend(fontsize=8, loc="outside right upper")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", nargs="+", choices=list(TASKS), default=["streets"])
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="of training of each run"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=DEFAULT_SEEDS)
    parser.add_argument("--parameters", type=int, default=100_000, help="of each contender, about")
    parser.add_argument(
        "--rates-from", type=Path, help="folder of tables compare_TASK.json with learning rates"
    )
    parser.add_argument(
        "--choose-rates",
        nargs="+",
        default=[],
        help="names of contenders whose rates are chosen again with --rates-from",
    )
    parser.add_argument("--only", nargs="+", help="names of contenders")
    parser.add_argument("--steps", action="store_true", help="time steps instead of training")
    parser.add_argument("--output", type=Path, default=Path("runs/compare_models"))
    parser.add_argument(
        "--quick", action="store_true", help="few items, two steps, one seed, one rate"
    )
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.parameters = [0], 20_000
    torch.set_num_threads(1)
    try:
        arenas = [Arena(name, args) for name in args.task]
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    names = [name for name in ORDER if args.only is None or name in args.only]
    if args.steps:
        for arena in arenas:
            arena.time_steps(names, args)
        summarize_steps(arenas, args)
        return
    first, *others = args.seeds
    for name, arena in product(names, arenas):
        for rate in arena.rates_to_try(name, args):
            arena.compete(name, rate, first, args)
    for seed, name, arena in product(others, names, arenas):
        arena.compete(name, arena.best_rate(name, first), seed, args)
    for arena in arenas:
        summarize(arena, args)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/compare_rooms.png"
