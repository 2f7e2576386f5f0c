"""Part segmentation with LatticeUNet and with PyG's EdgeConv
==========================================================

Trains both on 266 shapes of 19 categories (512 points each, 94 parts; the category of a shape is
given) and tests them on 114 others, with three seeds: for equal epochs, then the faster one for
the CPU time of the slower. Prints a table and writes all runs to ``results.json``.
``--validate`` trains on 228 shapes and reports on 38 others. Expect a mean IoU of 0.68 (0.74 at
equal time) against 0.67 (docs/benchmarks.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/segment_parts.py
"""

from functools import partial

import torch
from _shapes import (
    Contender,
    EdgeNet,
    Task,
    arguments,
    geometry_of,
    race,
    report,
    splits,
)
from torch.nn import functional
from torch_geometric.transforms import Compose

from permutogeo.datasets import LabeledMeshes
from permutogeo.models import LatticeUNet
from permutogeo.train import Mean
from permutogeo.transforms import BilateralFeature, KNNGraph, RandomRotation, RandomStretch


def contenders(parts):
    return {
        "LatticeUNet": Contender(
            lambda: LatticeUNet(6, 24, parts, dim=3, depth=2, dropout=0.3),
            BilateralFeature(pos=0.1),
            0.01,
        ),
        "EdgeConv": Contender(lambda: EdgeNet(6, 64, parts, task="point"), KNNGraph(8), 0.005),
    }


def predict(model, data, mask):
    """Return logits, masked to the parts of each shape's category."""
    x = torch.cat([data.pos, data.normal], 1)
    logits = model(x, geometry_of(data), data.batch)
    return logits.masked_fill(~mask[data.category[data.batch]], -torch.inf)


def step(model, data, mask):
    """Return the summed loss and the number of points."""
    logits = predict(model, data, mask)
    return functional.cross_entropy(logits, data.y, reduction="sum"), len(logits)


def measure(model, data, mask):
    """Return the sums behind mean IoU (over shapes, each over its parts) and point accuracy."""
    answer = predict(model, data, mask).argmax(1)
    ious = []
    for i, category in enumerate(data.category):
        parts = mask[category].nonzero()
        a, b = answer[data.batch == i] == parts, data.y[data.batch == i] == parts
        union = (a | b).sum(1)
        # A part that is absent and not predicted counts as IoU 1.
        iou = torch.where(union > 0, (a & b).sum(1) / union.clamp(min=1), 1.0)
        ious.append(float(iou.mean()))
    right = int((answer == data.y).sum())
    return {"mean_iou": (sum(ious), len(ious)), "accuracy": (right, len(answer))}


def main():
    args = arguments(__doc__, epochs=10, batch_size=8)
    learn, check = splits(LabeledMeshes, args)
    mask = learn.part_mask
    metric = Mean(partial(measure, mask=mask))
    augment = Compose([RandomRotation(15, axis=1), RandomStretch()])
    task = Task(learn, check, augment, partial(step, mask=mask), metric)
    report(race(task, contenders(learn.num_classes), args), ("mean_iou", "accuracy"), args)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/segment_parts.png"
