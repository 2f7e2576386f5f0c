"""Depth upsampling guided by a color image: the bottom of the paper's ``tbl:upsample``
====================================================================================

Downsamples depth maps of NYU Depth V2 by 8 and upsamples them by bicubic interpolation, by a
Gaussian over position and color whose bandwidths are searched on the training part, and by a
learned filter of 665 taps. The paper upsamples predicted depth; here it is the measured depth, so
that the errors are those of upsampling alone. With ``--predicted``, small networks predict the
depth at an eighth of the resolution: training rooms are predicted by networks that were trained
on the other rooms, test rooms by the mean of these networks. Writes a table with paired tests,
``results.json``, the error of each image, training curves, pictures and a page; resumes if
interrupted. Expect 0.066 m for bicubic interpolation, 0.068 m for the Gaussian and 0.065 m for the
learned filter (docs/reproduction.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/paper/upsample_depth.py
"""

import time

import torch
from _coarse import train_coarse
from _upsampling import Filters, draw, means, rmse
from scipy import stats
from torch.utils.data import Dataset

from permutogeo.benchmarks.experiment import DATA, arguments, load_or_exit, record
from permutogeo.datasets import GuidedSamples, NYUDepth
from permutogeo.train import write_csv

FACTOR = 8
# The paper's bandwidths: one over its feature scales, for colors from 0 to 255.
START = {"pos": 1 / 0.05, "color": 1 / 0.02 / 255}
PAPER = {"bicubic": 0.753, "gauss": 0.753, "learned": 0.748}


class Rooms:
    """Pairs of depth in meters (0 where missing) and color image."""

    def __init__(self, data, split, count=None):
        self.images = load_or_exit(NYUDepth, data, split, crop=True)
        every = 1 if count is None else max(1, len(self.images) // count)
        self.numbers = range(0, len(self.images), every)[:count]

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, i):
        return self.images.depth(self.numbers[i]), self.images.image(self.numbers[i])


class Predicted(Dataset):
    """Samples whose low-resolution depth is predicted from the color image.

    Args:
        samples: The samples.
        networks: For each sample, the networks whose mean is its prediction.
    """

    def __init__(self, samples, networks):
        self.samples, self.networks, self.factor = samples, networks, samples.factor
        self.found = {}

    def __len__(self):
        return len(self.samples)

    @torch.no_grad()
    def __getitem__(self, i):
        sample = dict(self.samples[i])
        if i not in self.found:
            small = [network(sample["guide"][None])[0] for network in self.networks[i]]
            self.found[i] = torch.stack(small).mean(0).clamp_min(0.0)
        return {**sample, "small": self.found[i]}


def predict_depth(train, held, args):
    """Return both samples with predicted depth; a network does not see the rooms it predicts."""

    def error(network, batch):
        image, depth = batch
        return (network(image) - depth).abs().sum(), depth.numel()

    parts = [range(start, len(train), args.folds) for start in range(args.folds)]
    networks = []
    for part in parts:
        rooms = (train[i] for i in range(len(train)) if i not in part)
        pairs = [(room["guide"], room["small"]) for room in rooms]
        pairs += [(image.flip(2), depth.flip(2)) for image, depth in pairs]
        networks.append(train_coarse(1, pairs, error, args.network_epochs, args.seed, 4))
    own = [[networks[i % args.folds]] for i in range(len(train))]
    return Predicted(train, own), Predicted(held, [networks] * len(held))


class Experiment:
    """The images, and the filters searched and trained on them."""

    def __init__(self, args):
        self.args = args
        side = args.middle or None
        # Depth is far from 0: keep_constants spares the filter from learning to keep it flat.
        self.filters = Filters((1, 3), rmse, args, args.side, keep_constants=True)
        counts = {"train": 2, "test": 2} if args.quick else {"train": None, "test": args.test}
        train, held = (Rooms(args.data, split, count) for split, count in counts.items())
        self.train = GuidedSamples(train, FACTOR, FACTOR, side, missing=0.0)
        self.held = GuidedSamples(held, FACTOR, FACTOR, side, missing=0.0)
        if args.predicted:
            self.train, self.held = predict_depth(self.train, self.held, args)

    def fit(self):
        """Return the Gaussian with the best bandwidths, and the best learned filter.

        A learned filter can use a larger support than a Gaussian, so larger bandwidths are tried.
        """
        args, few = self.args, max(1, len(self.train) // 10)
        samples = [self.train[i] for i in range(0, len(self.train), few)]
        self.scale = self.filters.choose(samples, START, args.output / "search.csv")
        found = {}
        for wider in args.wider:
            scale = {**self.scale, "pos": wider * self.scale["pos"]}
            found[wider] = self.filters.learn(scale, self.train, args.output / f"learned_{wider:g}")
            print(f"learned, bandwidth x {wider:g}: {found[wider][1]:.4f} m on held-out images")
        self.held_out = {f"{wider:g}": score for wider, (_, score) in found.items()}
        self.wider = min(found, key=lambda wider: found[wider][1])
        return {"gauss": self.filters.make(self.scale), "learned": found[self.wider][0]}

    def test(self, models):
        """Return means over the test images, and paired tests between methods."""
        rows = self.filters.test(models, self.held)
        write_csv(rows, self.args.output / "test.csv")
        columns = {name: [row[name] for row in rows] for name in PAPER}
        pairs = (("bicubic", "gauss"), ("bicubic", "learned"), ("gauss", "learned"))
        tests = {f"{a}, {b}": paired(columns[a], columns[b]) for a, b in pairs}
        return means(rows), tests

    def draw(self, models):
        sample, names = self.held[0], ["x", "y", "red", "green", "blue"]
        most = float(sample["target"].max())

        def note(image):
            return f"{rmse(image, sample):.4f} m"

        return draw(sample, models, self.args.output, names, note, most)


def paired(first, second):
    """Return the mean difference of two methods and the p-values of paired tests."""
    difference = [a - b for a, b in zip(first, second, strict=True)]
    return {
        "difference": sum(difference) / len(difference),
        "better": sum(d > 0 for d in difference) / len(difference),
        "p_t": float(stats.ttest_rel(first, second).pvalue),
        "p_wilcoxon": float(stats.wilcoxon(first, second).pvalue),
    }


def main():
    parser = arguments(
        __doc__, "the middle of a few images", data=DATA,
        side=(224, "side of the training crops"), epochs=10, lr=0.01,
        middle=(0, "side of the center crops to use; 0: whole images"),
        trials=(16, "bandwidths to try before the last round"), test=(118, "test images"),
        predicted=(False, "predict depth from color first"),
        folds=(2, "networks that predict depth"), network_epochs=(40, "of these networks"),
    )  # fmt: skip
    parser.add_argument("--wider", nargs="+", type=float, default=[1.0, 1.5],
                        help="bandwidths to learn with, relative to the Gaussian's")  # fmt: skip
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.trials, args.wider, args.network_epochs = 1, 2, [1.0], 1
        args.middle = 64
    torch.manual_seed(args.seed)
    args.output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    experiment = Experiment(args)
    models = experiment.fit()
    rows, tests = experiment.test(models)
    tables = {
        "RMSE in meters": {
            name: {"here": rows[name], "paper, of predictions": paper}
            for name, paper in PAPER.items()
        },
        "Paired tests over the images": tests,
    }
    source = "Predicted" if args.predicted else "Measured"
    record(
        args, "Depth upsampling guided by a color image", tables, experiment.draw(models),
        text=f"{source} depth at an eighth of the resolution, upsampled along the image.",
        seconds=time.perf_counter() - start, rows=rows, scale=experiment.scale,
        wider=experiment.wider, held_out=experiment.held_out,
    )  # fmt: skip


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/upsample_depth_filters.png"
