"""Classify shapes: a network on the lattice beside PyG's own EdgeConv, in one run.

    PERMUTOGEO_DATA=/path/to/data python examples/classify_shapes.py

trains both on the 907 training shapes of the Princeton Shape Benchmark (512 points each, classes
"coarse2") and tests them on the 907 test shapes, for three seeds: first for as many epochs, then
the faster one for as long as the slower took. Two tables say how they compare, and ``results.json``
in the output folder holds every run. To choose settings, ``--validate`` trains on
four fifths of the training shapes and reports on the rest.
"""

from _shapes import Contender, EdgeNet, RandomStretch, Task, arguments, race, report, splits, where
from torch.nn import functional
from torch_geometric.transforms import Compose, RandomFlip

from permutogeo.datasets import PrincetonShapes
from permutogeo.models import LatticeUNet
from permutogeo.train import Mean
from permutogeo.transforms import BilateralFeature
from permutogeo.transforms.knn_graph import KNNGraph

CONTENDERS = {
    "LatticeUNet": Contender(
        lambda: LatticeUNet(3, 24, 7, dim=3, depth=2, task="graph", dropout=0.3),
        BilateralFeature(pos=0.1),
        0.01,
    ),
    "EdgeConv": Contender(lambda: EdgeNet(3, 32, 7, task="graph"), KNNGraph(8), 0.005),
}


def predict(model, data):
    return model(data.pos, where(data), data.batch)


def step(model, data):
    """The loss over all shapes, and their number."""
    logits = predict(model, data)
    loss = functional.cross_entropy(logits, data.y, label_smoothing=0.1, reduction="sum")
    return loss, len(logits)


def measure(model, data):
    """Accuracy over shapes."""
    right = int((predict(model, data).argmax(1) == data.y).sum())
    return {"accuracy": (right, data.num_graphs)}


def main():
    args = arguments(__doc__, epochs=8, batch_size=16)
    learn, check = splits(PrincetonShapes, args)
    augment = Compose([RandomStretch(), RandomFlip(0)])
    task = Task(learn, check, augment, step, Mean(measure))
    report(race(task, CONTENDERS, args), ("accuracy",), args)


if __name__ == "__main__":
    main()
