"""Shared by the upsampling experiments: bandwidth search, training, tests, pictures."""

import math
import time

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

from permutogeo.datasets import RandomParts
from permutogeo.nn import JointBilateralUpsample
from permutogeo.ops import stencils
from permutogeo.train import Checkpoints, Mean, Trainer, hold_out, scale_search
from permutogeo.viz import filter_slices, image_panels


def mean_square(out, sample):
    """Return the sum of squared errors over known pixels, and their number."""
    return ((out - sample["target"]).square() * sample["known"]).sum(), sample["known"].sum()


def psnr(out, sample):
    total, count = mean_square(out.clamp(0, 1), sample)
    return -10 * math.log10(float(total / count))


def rmse(out, sample):
    total, count = mean_square(out, sample)
    return math.sqrt(float(total / count))


def bicubic(sample):
    """Return torch's bicubic interpolation, with pixel centers aligned to their blocks."""
    size = sample["target"].shape[1:]
    return functional.interpolate(sample["small"][None], size, mode="bicubic")[0]


class Filters:
    """Joint bilateral filters: bandwidth search, training and testing.

    Args:
        channels: Channels of the target and of the guide.
        score: The score of a result and its sample: ``rmse``, or a PSNR.
        args: Settings ``trials``, ``epochs``, ``lr`` and ``seed``.
        side: Train on random crops of this side; by default on whole samples, whose lattices are
            cached over the epochs.
        options: Passed to the learned :class:`permutogeo.nn.JointBilateralUpsample`.
    """

    def __init__(self, channels, score, args, side=None, **options):
        self.channels, self.score, self.args, self.side = channels, score, args, side
        self.maximize, self.options = score is not rmse, options

    def make(self, scale, taps=None, **options):
        """Return the layer with Gaussian taps, or with the given ones."""
        model = JointBilateralUpsample(*self.channels, scale["pos"], scale["color"], **options)
        if taps is not None:
            with torch.no_grad():
                model.conv.filter_weight.copy_(taps)
        return model

    @torch.no_grad()
    def choose(self, samples, start, log):
        """Return the bandwidths with the best score of the Gaussian filter."""

        def objective(**scale):
            model = self.make(scale)
            scores = [self.score(model(s["small"], s["guide"]), s) for s in samples]
            return sum(scores) / len(scores)

        limits = {"levels": 2, "max_trials": self.args.trials}
        return scale_search(objective, start, maximize=self.maximize, log=log, **limits).best

    def learn(self, scale, samples, folder):
        """Train the taps, initialized as the Gaussian, and keep the best epoch on a held-out part.

        Returns:
            The model and its score on the held-out samples.
        """
        args, model, lattices = self.args, self.make(scale, **self.options), {}
        train, val = hold_out(samples, 0.2 if len(samples) > 4 else 0.5, args.seed)
        if self.side is not None:
            train = RandomParts(train, samples.factor, self.side)

        def predict(model, sample):
            number, small, guide = (sample[name] for name in ("number", "small", "guide"))
            lattice = lattices.get(number) or model.build_lattice(guide, small.shape[1:])
            if self.side is None:
                lattices[number] = lattice
            return model(small, guide, lattice)

        def loss(model, sample):
            total, count = mean_square(predict(model, sample), sample)
            # PSNR averages squared errors over pixels, RMSE averages over samples.
            return (total, count) if self.maximize else ((total / count).sqrt(), 1)

        def measure(model, sample):
            return {"score": (self.score(predict(model, sample), sample), 1)}

        trainer = Trainer(
            model, loss, "adam", lr=args.lr, epochs=args.epochs, schedule="cosine",
            seed=args.seed, metric=Mean(measure),
            checkpoints=Checkpoints(
                folder, resume=True, monitor="score", maximize=self.maximize
            ),
        )  # fmt: skip
        loaders = (
            DataLoader(part, batch_size=None, shuffle=part is train) for part in (train, val)
        )
        best = trainer.best(trainer.fit(*loaders))
        trainer.load_best()
        return model, best["score"]

    @torch.no_grad()
    def test(self, models, samples):
        """Return a row per sample: the scores of bicubic interpolation and of each model.

        Models with equal bandwidths share a lattice.
        """
        rows = []
        for sample in samples:
            small, guide, start = sample["small"], sample["guide"], time.perf_counter()
            row, lattices = {"image": sample["number"]}, {}
            row["bicubic"] = self.score(bicubic(sample), sample)
            for name, model in models.items():
                sigma = tuple(model.bandwidth.initial)
                if sigma not in lattices:
                    lattices[sigma] = model.build_lattice(guide, small.shape[1:])
                row[name] = self.score(model(small, guide, lattices[sigma]), sample)
            rows.append({**row, "seconds": time.perf_counter() - start})
        return rows


def means(rows):
    """Return the mean of each column over the images."""
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0] if name != "image"}


@torch.no_grad()
def draw(sample, models, folder, names, note, most=1.0):
    """Draw a sample by each method, and the learned filter beside the Gaussian.

    Args:
        sample: The sample.
        models: The Gaussian and the learned filter, as ``"gauss"`` and ``"learned"``.
        folder: Where to write ``images.png`` and ``filters.png``.
        names: Names of the features.
        note: Returns the text below a result.
        most: The value that is drawn white.
    """
    small, guide, target = (sample[name] for name in ("small", "guide", "target"))
    found = {"Bicubic": bicubic(sample)}
    found |= {name.capitalize(): models[name](small, guide) for name in ("gauss", "learned")}
    images = {"Small": small, "True": target, **found}
    images = {"Guide": guide} | {name: image / most for name, image in images.items()}
    notes = {name: note(image) for name, image in found.items()}
    height, width = target.shape[1:]
    detail = (width // 3, height // 3, width // 4, height // 4)
    image_panels(images, folder / "images.png", notes=notes, crop=detail, columns=3)
    dim, learned = len(names), models["learned"].conv.filter_weight
    taps = {"Gaussian": stencils.gaussian(dim, 2), "learned": learned}
    filter_slices(taps, dim, 2, folder / "filters.png", names=names)
    return {
        "A test image and a detail of it, by each method": folder / "images.png",
        "The Gaussian and the learned filter, in bandwidths": folder / "filters.png",
    }
