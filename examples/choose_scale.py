"""Score over the scale of the features: how many points should share a vertex?
============================================================================

Trains one LatticeUNet for each number of points per vertex, for the same seconds of one core, and
draws its score on the validation part and the seconds of a step to ``TASK.png``. A scale is written
when it is done, and a repeated command goes on with those that are missing.

::

    python examples/choose_scale.py
    PERMUTOGEO_DATA=/path/to/data python examples/choose_scale.py --task meshes
"""

import argparse
import json
from pathlib import Path

import matplotlib
import torch
from _contenders import LatticeModel, as_input
from _tasks import TASKS
from compare_models import train

from permutogeo.benchmarks.record import write_table
from permutogeo.models import LatticeUNet

DENSITIES = (0.7, 1.5, 3.0, 6.0, 15.0)
RATE = 0.008  # the better one of LatticeUNet in compare_models.py


def run(task, density, args):
    """Return the score and the seconds of a step at a number of points per vertex."""
    torch.manual_seed(0)
    sample = [as_input(item, task) for item in task.parts[0][:8]]
    options = {"points_per_vertex": density, "context": task.kind == "point"}
    model = LatticeModel(LatticeUNet, sample, 16, task.classes, **options)
    most = 2 if args.quick else None
    curve, step = train(model, task.parts, task, args.seconds, RATE, 0, most)
    return {"points_per_vertex": density, "score": curve[-1][1], "seconds_per_step": step}


def draw(results, path, label):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    columns = ("points_per_vertex", "score", "seconds_per_step")
    density, score, step = ([each[key] for each in results] for key in columns)
    axes.semilogx(density, score, marker="o", label=label)
    axes.axvline(3, color="0.7", zorder=0, label="default of suggest_scale")
    axes.set(xlabel="points per vertex", ylabel=label)
    cost = axes.twinx()
    cost.semilogx(density, step, marker=".", linestyle="--", color="tab:red", label="cost")
    cost.set_ylabel("seconds of a step", color="tab:red")
    cost.set_ylim(bottom=0)
    axes.legend(loc="lower center")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", choices=list(TASKS), default="rooms")
    parser.add_argument("--seconds", type=float, default=20.0, help="of training at each scale")
    parser.add_argument("--output", type=Path, default=Path("runs/choose_scale"))
    parser.add_argument("--quick", action="store_true", help="few points, two steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = TASKS[args.task](args.quick)
    folder = args.output / args.task
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for density in (0.7, 3.0) if args.quick else DENSITIES:
        path = folder / f"{density:g}.json"
        if not path.is_file():
            path.write_text(json.dumps(run(task, density, args)) + "\n")
        results.append(json.loads(path.read_text()))
        score, step = results[-1]["score"], results[-1]["seconds_per_step"]
        print(f"{density:6.1f} points per vertex: {task.metric} {score:.3f}, {step:.3f} s/step")
    title = f"{args.task}: LatticeUNet at several scales after {args.seconds:g} s of one core"
    columns = ["points per vertex", f"{task.metric}, validation", "s/step"]
    rows = [
        [f"{r['points_per_vertex']:g}", f"{r['score']:.3f}", f"{r['seconds_per_step']:.3f}"]
        for r in results
    ]
    write_table(args.output / f"{args.task}.json", title, columns, rows)
    draw(results, args.output / f"{args.task}.png", f"{task.metric}, validation")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/choose_scale_rooms.png"
