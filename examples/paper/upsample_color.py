"""Color upsampling guided by a gray image: the paper's ``tbl:upsample`` and ``tbl:crossupsample``
===============================================================================================

Downsamples color images of VOC 2012 and BSDS500 by 2, 4, 8 and 16 (block means) and upsamples them
by bicubic interpolation, by a Gaussian over position and gray value whose bandwidths are searched
on the training part, and by a learned filter of 65 taps. Filters learned at one factor are also
tested at the others. Writes tables, ``results.json``, the PSNR of each image, training curves,
pictures and a page; resumes if interrupted. Expect the Gaussian 7 to 9 dB above bicubic
interpolation, and the learned filter 0.03 to 0.6 dB above the Gaussian (docs/reproduction.md).
``--chroma`` tests something simpler, on the same images: only the differences between color and
gray are upsampled, by bicubic interpolation or by the bilateral filter, and gray is added.

::

    PERMUTOGEO_DATA=/path/to/data python examples/paper/upsample_color.py
"""

import time

import torch
from _upsampling import Filters, draw, means, psnr
from torch.nn import functional

from permutogeo.benchmarks.experiment import DATA, arguments, load_or_exit, record
from permutogeo.datasets import BSDS500, VOC2012, GuidedSamples
from permutogeo.train import write_csv

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
    dataset, held = {"voc": (VOC2012, "val"), "bsds": (BSDS500, "test")}[name]
    parts = [load_or_exit(dataset, args.data, split) for split in ("train", held)]
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
        samples = GuidedSamples(self.train, factor, side=side)
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
        samples = GuidedSamples(self.held, factor, side=64 if self.args.quick else None)
        rows = self.filters.test(self.models(factor), samples)
        write_csv(rows, self.output / f"test_{factor}.csv")
        better = sum(row["learned"] > row["gauss"] for row in rows) / len(rows)
        return {**means(rows), "scale": self.scales[factor], "learned_better": better}

    def test_chroma(self, factor):
        """Return the mean PSNR of upsampling only the differences to gray, which is known."""
        side = 64 if self.args.quick else None
        filters, train = Filters((3, 1), chroma_psnr, self.args), GuidedSamples(self.train, factor)
        few = [chroma(train[i]) for i in range(0, len(train), max(1, len(train) // 12))]
        start = {"pos": 0.4 * factor, "color": 0.1}
        scale = filters.choose(few, start, self.output / f"search_chroma_{factor}.csv")
        samples = (chroma(sample) for sample in GuidedSamples(self.held, factor, side=side))
        rows = means(filters.test({"gauss": filters.make(scale)}, samples))
        return {**rows, **{f"bandwidth, {name}": value for name, value in scale.items()}}

    def run(self):
        """Return the rows of the table, one per factor."""
        for factor in self.args.factors:
            self.fit(factor)
        rows = {}
        for factor in self.args.factors:
            rows[factor] = self.test(factor)
            print(f"{self.name} {factor}x: learned {rows[factor]['learned']:.2f} dB", flush=True)
        return rows

    def draw(self):
        factor = 8 if 8 in self.args.factors else self.args.factors[0]
        sample = GuidedSamples(self.held, factor, side=64 if self.args.quick else None)[0]

        def note(image):
            return f"{psnr(image, sample):.2f} dB"

        found = draw(sample, self.models(factor), self.output, ["x", "y", "gray"], note)
        return {f"{TITLES[self.name]} {factor}x. {name}": path for name, path in found.items()}


def chroma(sample):
    """Return a sample whose low-resolution image is its difference to gray."""
    gray = functional.avg_pool2d(
        sample["guide"], sample["guide"].shape[2] // sample["small"].shape[2]
    )
    return {**sample, "small": sample["small"] - gray}


def chroma_psnr(out, sample):
    """Return the PSNR with gray added; capped, since some photographs have hardly any color."""
    return min(psnr(out + sample["guide"], sample), CAP)


def cross(row, trained, tested):
    return row["learned"] if trained == tested else row[f"from {trained}"]


def tables_of(found):
    """Return the tables of all datasets."""
    tables = {}
    for name, rows in found.items():
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
    return tables


def main():
    parser = arguments(
        __doc__, "the middle of a few images", data=DATA,
        images=(48, "training images per dataset"), side=(256, "side of the training crops"),
        epochs=4, lr=0.002, trials=(14, "bandwidths to try before the last round"),
        chroma=(False, "test upsampling of chroma alone"),
    )  # fmt: skip
    parser.add_argument("--datasets", nargs="+", choices=list(PAPER), default=list(PAPER))
    parser.add_argument("--factors", nargs="+", type=int, choices=list(START), default=list(START))
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.trials, args.datasets, args.factors = 1, 2, ["voc"], [2, 8]
    torch.manual_seed(args.seed)
    start, rows, pictures = time.perf_counter(), {}, {}
    for name in args.datasets:
        experiment = Experiment(name, args)
        if args.chroma:
            rows[name] = {factor: experiment.test_chroma(factor) for factor in args.factors}
            continue
        rows[name] = experiment.run()
        pictures |= experiment.draw()
    if args.chroma:
        tables = {
            f"{TITLES[name]}: PSNR in dB": {f"{factor}x": row for factor, row in own.items()}
            for name, own in rows.items()
        }
    else:
        tables = tables_of(rows)
    record(
        args, "Color upsampling guided by a gray image", tables, pictures,
        text="Block means of colors, upsampled along the gray image.",
        seconds=time.perf_counter() - start, rows=rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/upsample_color_filters.png"
