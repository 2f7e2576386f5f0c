"""Shape classification with LatticeUNet and with PyG's EdgeConv
=============================================================

Trains both on the 907 training shapes of the Princeton Shape Benchmark (512 points each, classes
"coarse2") and tests them on the 907 test shapes, with three seeds: for equal epochs, then the
faster one for the CPU time of the slower. Prints a table and writes all runs to
``results.json``. ``--validate`` trains on four fifths of the training shapes and reports on the
rest. Expect an accuracy of 0.64 (0.66 at equal time) against 0.60 (docs/benchmarks.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/classify_shapes.py
"""

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
from torch_geometric.transforms import Compose, RandomFlip

from permutogeo.datasets import PrincetonShapes
from permutogeo.models import LatticeUNet
from permutogeo.train import Confusion
from permutogeo.transforms import BilateralFeature, KNNGraph, RandomRotation, RandomStretch


def contenders(classes):
    return {
        "LatticeUNet": Contender(
            lambda: LatticeUNet(3, 24, classes, dim=3, depth=2, task="graph", dropout=0.3),
            BilateralFeature(pos=0.1),
            0.01,
        ),
        "EdgeConv": Contender(lambda: EdgeNet(3, 32, classes, task="graph"), KNNGraph(8), 0.005),
    }


def predict(model, data):
    return model(data.pos, geometry_of(data), data.batch), data.y


def step(model, data):
    """Return the summed loss and the number of shapes."""
    logits, target = predict(model, data)
    loss = functional.cross_entropy(logits, target, label_smoothing=0.1, reduction="sum")
    return loss, len(logits)


def main():
    args = arguments(__doc__, epochs=8, batch_size=16)
    learn, check = splits(PrincetonShapes, args)
    augment = Compose([RandomRotation(15, axis=1), RandomStretch(), RandomFlip(0)])
    metric = Confusion(learn.num_classes, predict=predict)
    task = Task(learn, check, augment, step, metric)
    report(race(task, contenders(learn.num_classes), args), ("accuracy",), args)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/classify_shapes.png"
