"""Classification of shapes, and which classes are taken for each other
====================================================================

Trains a LatticeUNet on the 907 training shapes of the Princeton Shape Benchmark (512 points each,
classes "coarse2") with a loader of PyG and the trainer, and tests it on the 907 test shapes. Prints
the accuracy and draws the confusion of the classes to ``classify_shapes.png``. Expect an accuracy
of 0.62. Networks of PyG's layers on this task: ``compare_models.py --task shapes``.

::

    PERMUTOGEO_DATA=/path/to/data python examples/classify_shapes.py
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import matplotlib
import torch
from torch.nn import functional
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose, RandomFlip

from permutogeo.datasets import PrincetonShapes
from permutogeo.models import LatticeUNet
from permutogeo.train import Trainer, confusion
from permutogeo.transforms import RandomRotation, RandomStretch, RandomSubsample


def add_values(data):
    """Let a network see positions."""
    data.x = data.pos
    return data


def loss(model, batch):
    """Return the summed loss and the number of shapes."""
    logits = model(batch.x, batch.pos, batch.batch)
    summed = functional.cross_entropy(logits, batch.y, label_smoothing=0.1, reduction="sum")
    return summed, len(logits)


@torch.no_grad()
def evaluate(model, loader, classes):
    """Return how often each class, by rows, was taken for each other one."""
    model.eval()
    both = torch.zeros(classes, classes)
    for batch in loader:
        answer = model(batch.x, batch.pos, batch.batch).argmax(1)
        both += confusion(answer, batch.y, classes)
    return both


def draw(both, names, path):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.8, 4.4), layout="constrained")
    share = both / both.sum(1, keepdim=True).clamp(min=1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in torch.cartesian_prod(*[torch.arange(len(names))] * 2).tolist():
        each = float(share[row, column])
        color = "white" if each > 0.5 else "black"
        axes.text(column, row, f"{each:.0%}", ha="center", va="center", color=color, fontsize=7)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(xlabel="answer", ylabel="class")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--output", type=Path, default=Path("runs/classify_shapes"))
    parser.add_argument("--quick", action="store_true", help="few shapes, one epoch")
    args = parser.parse_args()
    torch.manual_seed(0)
    augment = [RandomSubsample(count=512), RandomRotation(15, axis=1), RandomStretch()]
    try:
        learn = PrincetonShapes(
            split="trainval", transform=Compose([*augment, RandomFlip(0), add_values])
        )
        test = PrincetonShapes(
            split="test", transform=Compose([RandomSubsample(count=512, seed=0), add_values])
        )
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    model = LatticeUNet.from_data(learn, 24, learn.num_classes, dropout=0.3)
    print(model)
    if args.quick:
        learn, test, args.epochs = learn[::100], test[::100], 1
    optimizer = partial(torch.optim.AdamW, lr=0.01)
    trainer = Trainer(model, loss, optimizer, schedule="one_cycle", epochs=args.epochs)
    trainer.fit(DataLoader(learn, 16, shuffle=True))
    both = evaluate(model, DataLoader(test, 16), test.num_classes)
    accuracy = float(both.diagonal().sum() / both.sum())
    print(f"accuracy {accuracy:.3f} over {int(both.sum())} test shapes")
    args.output.mkdir(parents=True, exist_ok=True)
    names = ["miscellaneous" if name == "-1" else name for name in test.classes]
    draw(both, names, args.output / "classify_shapes.png")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/classify_shapes.png"
