"""Segment shapes into their parts: a U-Net on the lattice beside PyG's own EdgeConv, in one run.

    PERMUTOGEO_DATA=/path/to/data python examples/segment_parts.py

trains both on the same 266 shapes of 19 categories (512 points each, 94 parts; a shape's category
is known, so that only its parts are asked for) and tests them on 114 others, for three seeds: first
for as many epochs, then the faster one for as long as the slower took. Two tables say how they
compare, and ``results.json`` in the output folder holds every run. To choose
settings, ``--validate`` trains on 228 shapes and reports on 38 others.
"""

from functools import partial

import torch
from _shapes import Contender, EdgeNet, RandomStretch, Task, arguments, race, report, splits, where
from torch.nn import functional

from permutogeo.datasets import LabeledMeshes
from permutogeo.models import LatticeUNet
from permutogeo.train import Mean
from permutogeo.transforms import BilateralFeature
from permutogeo.transforms.knn_graph import KNNGraph

CONTENDERS = {
    "LatticeUNet": Contender(
        lambda: LatticeUNet(6, 24, 94, dim=3, depth=2, dropout=0.3), BilateralFeature(pos=0.1), 0.01
    ),
    "EdgeConv": Contender(lambda: EdgeNet(6, 64, 94, task="point"), KNNGraph(8), 0.005),
}


def predict(model, data, mask):
    """The logits of the parts that each point's shape can have."""
    x = torch.cat([data.pos, data.normal], 1)
    logits = model(x, where(data), data.batch)
    return logits.masked_fill(~mask[data.category[data.batch]], -torch.inf)


def step(model, data, mask):
    """The loss over all points, and their number."""
    logits = predict(model, data, mask)
    return functional.cross_entropy(logits, data.y, reduction="sum"), len(logits)


def measure(model, data, mask):
    """Mean IoU over shapes, each the mean over its category's parts, and accuracy over points."""
    answer = predict(model, data, mask).argmax(1)
    ious = []
    for i, category in enumerate(data.category):
        parts = mask[category].nonzero()
        a, b = answer[data.batch == i] == parts, data.y[data.batch == i] == parts
        union = (a | b).sum(1)
        # A part that is neither there nor predicted is right.
        iou = torch.where(union > 0, (a & b).sum(1) / union.clamp(min=1), 1.0)
        ious.append(float(iou.mean()))
    right = int((answer == data.y).sum())
    return {"mean_iou": (sum(ious), len(ious)), "accuracy": (right, len(answer))}


def main():
    args = arguments(__doc__, epochs=10, batch_size=8)
    learn, check = splits(LabeledMeshes, args)
    mask = learn.part_mask
    metric = Mean(partial(measure, mask=mask))
    task = Task(learn, check, RandomStretch(), partial(step, mask=mask), metric)
    report(race(task, CONTENDERS, args), ("mean_iou", "accuracy"), args)


if __name__ == "__main__":
    main()
