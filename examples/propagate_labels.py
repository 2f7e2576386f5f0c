"""Labels of photographs from 1 % of their pixels
==============================================

Keeps the class of 1 % of the pixels of images of VOC 2012, chosen at random, and propagates them to
all pixels: from the nearest labeled pixel, by a joint bilateral filter of the labels, and by the
bilateral solver. The bandwidths of both are chosen on training images. Prints the accuracy and the
mean intersection over union of the classes of an image, averaged over images
(docs/guides/solver.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/propagate_labels.py
"""

import argparse
import time
from pathlib import Path

import torch
from scipy.spatial import cKDTree

from permutogeo.benchmarks.record import write_results
from permutogeo.datasets import VOC2012
from permutogeo.functional import fill_unreached, gaussian_filter
from permutogeo.lattice.normalization import append_ones, divide_by_mass
from permutogeo.solvers import bilateral_label_propagation
from permutogeo.train import grid_search
from permutogeo.viz import image_panels, palette

FILTER = {"pos": [4.0, 8.0], "color": [0.1, 0.2]}
SOLVER = {"pos": [3.0, 4.0], "color": [0.1, 0.2], "lam": [0.01, 0.1]}


def load(data, split, share, limit):
    """Return images with true labels from 0 (-1 where unknown) and the few that are given."""
    images = VOC2012(data, split)
    every = 1 if limit is None else max(1, len(images) // limit)
    samples = []
    for i in range(0, len(images), every)[:limit]:
        image = images[i]
        known = image.y != VOC2012.void
        names, image.y[known] = image.y[known].unique(return_inverse=True)
        image.y[~known] = -1
        generator = torch.Generator().manual_seed(i)
        chosen = torch.rand(len(known), generator=generator) < share
        image.label, image.names = torch.where(chosen, image.y, -1), names
        if len(names) > 1 and (image.label >= 0).any():
            samples.append(image)
    return samples


def nearest(image):
    given = (image.label >= 0).nonzero()[:, 0]
    index = cKDTree(image.pos[given].numpy()).query(image.pos.numpy())[1]
    return image.label[given][torch.from_numpy(index)]


def joint_bilateral(image, pos, color):
    """Filter the given labels to all pixels; further bandwidths fill what they do not reach."""
    feature = torch.cat([image.pos / pos, image.x / color], 1)
    given = image.label >= 0
    one_hot = torch.nn.functional.one_hot(image.label[given], len(image.names)).float()
    pair = (feature[given], feature)
    sums = gaussian_filter(append_ones(one_hot), pair, normalize=None)
    out = fill_unreached(divide_by_mass(sums), sums[:, -1] > 0, one_hot, pair)
    return out.argmax(1)


def solver(image, pos, color, lam):
    feature = torch.cat([image.pos / pos, image.x / color], 1)
    classes = len(image.names)
    return bilateral_label_propagation(image.label, feature, None, classes, lam).argmax(1)


def measure(samples, method):
    """Return the accuracy and the mean intersection over union, over images."""
    scores = []
    for image in samples:
        found, y = method(image), image.y
        known = y >= 0
        overlap = [
            ((found == c) & (y == c)).sum() / (((found == c) | (y == c)) & known).sum().clamp_min(1)
            for c in range(len(image.names))
        ]
        scores.append(
            torch.stack([(found == y)[known].float().mean(), sum(overlap) / len(overlap)])
        )
    return torch.stack(scores).mean(0).tolist()


def draw(image, methods, path):
    size = (image.height, image.width)

    def colors(label):
        rgb = torch.from_numpy(palette(len(image.names)).copy()).float() / 255
        shown = torch.where(label[:, None] >= 0, rgb[label.clamp_min(0)], torch.ones(3))
        return shown.T.reshape(3, *size)

    panels = {"photograph": image.x.T.reshape(3, *size), "true": colors(image.y)}
    panels["given"] = colors(image.label)
    notes = {}
    for name, method in methods.items():
        panels[name] = colors(method(image))
        notes[name] = f"accuracy {measure([image], method)[0]:.4f}"
    image_panels(panels, path, notes=notes, columns=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/propagate_labels"))
    parser.add_argument("--share", type=float, default=0.01, help="share of labeled pixels")
    parser.add_argument("--limit", type=int, help="test images; by default all")
    parser.add_argument("--quick", action="store_true", help="one image, no search")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    train = load(args.data, "train", args.share, 1 if args.quick else 10)
    methods = {"nearest": nearest}
    record = {"chosen": {}, "scores": {}}
    for name, function, search in (
        ("joint bilateral", joint_bilateral, FILTER), ("solver", solver, SOLVER)
    ):  # fmt: skip
        search = {key: values[:1] for key, values in search.items()} if args.quick else search
        best = grid_search(
            lambda f=function, **kernel: measure(train, lambda image: f(image, **kernel))[1],
            search,
            maximize=True,
        ).best
        print(f"{name}: {best}, chosen on {len(train)} training images", flush=True)
        record["chosen"][name] = best
        methods[name] = lambda image, f=function, best=best: f(image, **best)
    test = load(args.data, "val", args.share, 1 if args.quick else args.limit)
    for name, method in methods.items():
        accuracy, overlap = record["scores"][name] = measure(test, method)
        print(f"{name:16} accuracy {accuracy:.4f}, IoU {overlap:.4f} over {len(test)} images",
              flush=True)  # fmt: skip
    write_results(args, seconds=time.perf_counter() - start, **record)
    draw(test[0], methods, args.output / "labels.png")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/solver_labels.png"
