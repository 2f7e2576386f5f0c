"""Color upsampling guided by a gray image: the paper's ``tbl:upsample`` and ``tbl:crossupsample``.

    PERMUTOGEO_DATA=/path/to/data python examples/paper/upsample_color.py

Downsamples color images of VOC 2012 and BSDS500 by 2, 4, 8 and 16 (block means) and upsamples them
by bicubic interpolation, by a Gaussian over position and gray value whose bandwidths are searched
on the training part, and by a learned filter of 65 taps. Filters learned at one factor are also
tested at the others. Writes tables, ``results.json``, the PSNR of each image, training curves,
pictures and a page; resumes if interrupted. Expect the Gaussian 7 to 9 dB above bicubic
interpolation, and the learned filter 0.03 to 0.6 dB above the Gaussian (docs/reproduction.md).
``--chroma`` tests something simpler, on the same images: only the differences between color and
gray are upsampled, by bicubic interpolation or by the bilateral filter, and gray is added.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from _record import command, settings_of, titled
from _upsampling import Filters, Samples, bicubic, means, psnr
from torch.nn import functional

from permutogeo.datasets import BSDS500, VOC2012
from permutogeo.ops import stencils
from permutogeo.train import write_csv
from permutogeo.viz import experiment_page, filter_slices, image_panels

# The paper's bandwidths at each factor: one over its feature scales, for gray from 0 to 255.
START = {2: 1 / 0.13, 4: 1 / 0.06, 8: 1 / 0.03, 16: 1 / 0.02}
START_COLOR = 1 / 0.17 / 255
PAPER = {  # bicubic, Gauss, learned on VOC 2012 and on 200 photographs of 2 megapixels
    "voc": {2: (24.19, 33.46, 34.05), 4: (20.34, 31.87, 32.28), 8: (17.99, 30.51, 30.81),
            16: (16.10, 29.19, 29.52)},
    "bsds": {2: (30.59, 37.93, 38.74), 4: (25.28, 35.66, 36.38), 8: (22.12, 33.92, 34.41),
             16: (19.80, 32.24, 32.75)},
}  # fmt: skip
LUMA = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
CAP = 58.9  # dB, of rounding to 8 bits
METHODS = ("bicubic", "gauss", "learned")
TITLES = {"voc": "VOC 2012", "bsds": "BSDS500"}


class Photographs:
    """Pairs of a color image and its gray version."""

    def __init__(self, images, numbers):
        self.images, self.numbers = images, list(numbers)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, i):
        color = self.images.image(self.numbers[i])
        return color, (color * LUMA).sum(0, keepdim=True)


def load(name, args):
    """Return the training and the test part of a dataset."""
    parts = {
        "voc": lambda: (VOC2012(args.data, "train"), VOC2012(args.data, "val")),
        "bsds": lambda: (BSDS500(args.data, "train"), BSDS500(args.data, "test")),
    }[name]()
    counts = (2, 1) if args.quick else (args.images, len(parts[1]))
    strides = [max(1, len(part) // count) for part, count in zip(parts, counts, strict=True)]
    return [
        Photographs(part, range(0, len(part), stride)[:count])
        for part, stride, count in zip(parts, strides, counts, strict=True)
    ]


class Experiment:
    """The experiment on one dataset, at all factors."""

    def __init__(self, name, args):
        self.name, self.args, self.output = name, args, args.output / name
        self.output.mkdir(parents=True, exist_ok=True)
        self.train, self.held = load(name, args)
        self.filters = Filters((3, 1), psnr, args)
        self.scales, self.learned = {}, {}

    def fit(self, factor):
        """Search the bandwidths and train the filter of one factor."""
        side = 64 if self.args.quick else self.args.side
        samples = Samples(self.train, factor, side=side)
        few = [samples[i] for i in range(0, len(samples), max(1, len(samples) // 12))]
        start = {"pos": START[factor], "color": START_COLOR}
        log = self.output / f"search_{factor}.csv"
        self.scales[factor] = self.filters.choose(few, start, log)
        folder = self.output / f"learned_{factor}"
        self.learned[factor], _ = self.filters.learn(self.scales[factor], samples, folder)

    def models(self, factor):
        """Return the Gaussian, the learned filter, and the filters learned at other factors."""
        make, scale = self.filters.make, self.scales[factor]
        taps = {other: model.conv.filter_weight for other, model in self.learned.items()}
        return {"gauss": make(scale), "learned": make(scale, taps[factor])} | {
            f"from {other}": make(scale, taps[other]) for other in taps if other != factor
        }

    def test(self, factor):
        """Return means over the test images; write the figures of each to a CSV file."""
        samples = Samples(self.held, factor, side=64 if self.args.quick else None)
        rows = self.filters.test(self.models(factor), samples)
        write_csv(rows, self.output / f"test_{factor}.csv")
        better = sum(row["learned"] > row["gauss"] for row in rows) / len(rows)
        return {**means(rows), "scale": self.scales[factor], "learned_better": better}

    @torch.no_grad()
    def test_chroma(self, factor):
        """Return the mean PSNR of upsampling only the differences to gray, which is known.

        Images without color would have an infinite PSNR; all are capped at ``CAP``.
        """
        layer, rows = self.filters.make({"pos": 0.4 * factor, "color": 0.1}), []
        for sample in Samples(self.held, factor, side=64 if self.args.quick else None):
            gray = sample["guide"]
            small = sample["small"] - functional.avg_pool2d(gray, factor)
            found = {
                "bicubic": bicubic(sample),
                "bicubic, chroma": bicubic({**sample, "small": small}) + gray,
                "bilateral, chroma": layer(small, gray) + gray,
            }
            rows.append({name: min(psnr(out, sample), CAP) for name, out in found.items()})
        return means(rows)

    def run(self):
        """Return the rows of the table, one per factor."""
        for factor in self.args.factors:
            self.fit(factor)
        rows = {}
        for factor in self.args.factors:
            rows[factor] = self.test(factor)
            print_row(self.name, factor, rows[factor])
        for factor in self.args.factors:
            print(f"  learned at {factor:2}x:" + "".join(
                f"{cross(rows[other], factor, other):8.2f} ({other}x)" for other in rows
            ))  # fmt: skip
        return rows

    @torch.no_grad()
    def draw(self):
        """Draw a test image by each method, and the learned filter beside the Gaussian."""
        factor = 8 if 8 in self.args.factors else self.args.factors[0]
        sample = Samples(self.held, factor, side=64 if self.args.quick else None)[0]
        models = self.models(factor)
        found = {"Bicubic": bicubic(sample)} | {
            title: models[name](sample["small"], sample["guide"])
            for name, title in (("gauss", "Gauss"), ("learned", "Learned"))
        }
        images = {"Small": sample["small"], "Guide": sample["guide"], "True": sample["target"]}
        notes = {name: f"{psnr(image, sample):.2f} dB" for name, image in found.items()}
        height, width = sample["target"].shape[1:]
        detail = (width // 3, height // 3, width // 4, height // 4)
        images_path, taps_path = self.output / "images.png", self.output / "filters.png"
        image_panels(images | found, images_path, notes=notes, crop=detail, columns=3)
        taps = {
            "Gaussian": stencils.gaussian(3, 2),
            "learned": self.learned[factor].conv.filter_weight,
        }
        filter_slices(taps, 3, 2, taps_path, names=["x", "y", "gray"])
        return {
            f"{TITLES[self.name]}, a test image at {factor}x": images_path,
            f"{TITLES[self.name]}, the filters at {factor}x, in bandwidths": taps_path,
        }


def cross(row, trained, tested):
    return row["learned"] if trained == tested else row[f"from {trained}"]


def print_row(name, factor, row):
    shown = "".join(
        f"{row[m]:9.2f} ({p:5.2f})" for m, p in zip(METHODS, PAPER[name][factor], strict=True)
    )
    scale = ", ".join(f"{key} {value:.3g}" for key, value in row["scale"].items())
    print(f"{name:5} {factor:2}x {shown}   {scale}", flush=True)


def write_page(args, record, pictures):
    tables = {}
    for name, rows in record["rows"].items():
        tables[f"{TITLES[name]}: PSNR in dB (paper)"] = {
            f"{factor}x": {
                method: f"{row[method]:.2f} ({paper:.2f})"
                for method, paper in zip(METHODS, PAPER[name][factor], strict=True)
            }
            for factor, row in rows.items()
        }
        tables[f"{TITLES[name]}: learned at one factor (row), tested at another"] = {
            f"{trained}x": {
                f"{tested}x": f"{cross(rows[tested], trained, tested):.2f}" for tested in rows
            }
            for trained in rows
        }
    curves = {
        f"{path.parent.parent.name} {path.parent.name}": path
        for path in sorted(args.output.glob("*/*/curve.png"))
    }
    experiment_page(
        args.output / "page.html", title=titled("Color upsampling guided by a gray image", args),
        text="Block means of colors, upsampled along the gray image.",
        command=command(),
        tables=tables, pictures=pictures, curves=curves, settings=record["settings"],
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/upsample_color"))
    parser.add_argument("--datasets", nargs="+", choices=list(PAPER), default=list(PAPER))
    parser.add_argument("--factors", nargs="+", type=int, choices=list(START), default=list(START))
    parser.add_argument("--images", type=int, default=48, help="training images per dataset")
    parser.add_argument("--side", type=int, default=256, help="side of the training crops")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--trials", type=int, default=14, help="bandwidths to try, at most")
    parser.add_argument("--chroma", action="store_true", help="test upsampling of chroma alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="the middle of a few images")
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.trials, args.datasets, args.factors = 1, 2, ["voc"], [2, 8]
    torch.manual_seed(args.seed)
    start, rows, pictures = time.perf_counter(), {}, {}
    print("PSNR in dB (paper):  bicubic          gauss            learned          bandwidths")
    for name in args.datasets:
        experiment = Experiment(name, args)
        if args.chroma:
            rows[name] = {factor: experiment.test_chroma(factor) for factor in args.factors}
            print(name, rows[name], flush=True)
            continue
        rows[name] = experiment.run()
        pictures |= experiment.draw()
    record = {"settings": settings_of(args), "seconds": time.perf_counter() - start, "rows": rows}
    (args.output / "results.json").write_text(json.dumps(record, indent=2))
    if pictures:
        write_page(args, record, pictures)


if __name__ == "__main__":
    main()
