"""Part segmentation of labeled shapes, category by category
=========================================================

Trains a LatticeUNet on 266 shapes of 19 categories (512 points each, 94 parts; the category of a
shape is given) with a loader of PyG and the trainer, and tests it on 114 others. Prints the mean
IoU of each category and draws it to ``segment_parts.png``. Expect a mean of 0.67. Networks of
PyG's layers on this task: ``compare_models.py --task parts``.

::

    PERMUTOGEO_DATA=/path/to/data python examples/segment_parts.py
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import matplotlib
import torch
from torch.nn import functional
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

from permutogeo.datasets import LabeledMeshes
from permutogeo.models import LatticeUNet
from permutogeo.train import Trainer
from permutogeo.transforms import RandomRotation, RandomStretch, RandomSubsample


def add_values(data):
    """Let a network see positions and normals."""
    data.x = torch.cat([data.pos, data.normal], 1)
    return data


def predict(model, batch, mask):
    """Return logits, masked to the parts of each shape's category."""
    logits = model(batch.x, batch.pos, batch.batch)
    return logits.masked_fill(~mask[batch.category[batch.batch]], -torch.inf)


def loss(model, batch, mask):
    """Return the summed loss and the number of points."""
    logits = predict(model, batch, mask)
    return functional.cross_entropy(logits, batch.y, reduction="sum"), len(logits)


@torch.no_grad()
def evaluate(model, loader, mask):
    """Return the category of each shape and its mean IoU over the parts of this category."""
    model.eval()
    categories, scores = [], []
    for batch in loader:
        answer = predict(model, batch, mask).argmax(1)
        for i, category in enumerate(batch.category.tolist()):
            parts = mask[category].nonzero()
            found, true = (each[batch.batch == i] == parts for each in (answer, batch.y))
            union = (found | true).sum(1)
            # A part that is absent and not predicted counts as 1.
            iou = torch.where(union > 0, (found & true).sum(1) / union.clamp(min=1), 1.0)
            categories.append(category)
            scores.append(float(iou.mean()))
    return torch.tensor(categories), torch.tensor(scores)


def draw(by_name, path):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.8, 4.4), layout="constrained")
    names = sorted(by_name, key=by_name.__getitem__)
    axes.barh(names, [by_name[name] for name in names], color="#2563eb")
    axes.set(xlabel="mean IoU over the parts", xlim=(0, 1))
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--output", type=Path, default=Path("runs/segment_parts"))
    parser.add_argument("--quick", action="store_true", help="few shapes, one epoch")
    args = parser.parse_args()
    torch.manual_seed(0)
    augment = [RandomSubsample(count=512), RandomRotation(15, axis=1), RandomStretch(), add_values]
    thin = [RandomSubsample(count=512, seed=0), add_values]
    try:
        learn = LabeledMeshes(split="trainval", transform=Compose(augment))
        test = LabeledMeshes(split="test", transform=Compose(thin))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    mask = learn.part_mask
    model = LatticeUNet.from_data(learn, 24, learn.num_classes, dropout=0.3)
    print(model)
    if args.quick:
        learn, test, args.epochs = learn[::40], test[::40], 1
    trainer = Trainer(
        model, partial(loss, mask=mask), partial(torch.optim.AdamW, lr=0.01),
        schedule="one_cycle", epochs=args.epochs,
    )  # fmt: skip
    trainer.fit(DataLoader(learn, 8, shuffle=True))
    category, score = evaluate(model, DataLoader(test, 8), mask)
    names = enumerate(test.categories)
    by_name = {name: float(score[category == i].mean()) for i, name in names if i in category}
    for name, each in by_name.items():
        print(f"{name:10} {each:.3f}")
    print(f"mean IoU {score.mean():.3f} over {len(score)} test shapes")
    args.output.mkdir(parents=True, exist_ok=True)
    draw(by_name, args.output / "segment_parts.png")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/segment_parts.png"
