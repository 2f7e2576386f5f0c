"""Shared by the upsampling experiments: samples, bandwidth search, training, tests, pictures."""

import math
import time

import torch
from scipy import ndimage
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from permutogeo.nn import JointBilateralUpsample
from permutogeo.ops import stencils
from permutogeo.train import Checkpoints, Mean, Trainer, hold_out, scale_search
from permutogeo.viz import filter_slices, image_panels


class Samples(Dataset):
    """Images with their guides and low-resolution inputs (means over blocks).

    Args:
        pairs: Pairs of a target ``[C, H, W]`` and a guide ``[G, H, W]``.
        factor: The upsampling factor.
        multiple: Sizes are cropped to multiples of it, so that all factors see the same pixels.
        side: Side of the center crop; by default the whole image.
        missing: The value of unknown target pixels.
    """

    def __init__(self, pairs, factor, multiple=16, side=None, missing=math.nan):
        self.pairs, self.factor, self.multiple, self.side = pairs, factor, multiple, side
        self.missing = missing

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        target, guide = (self._cut(image) for image in self.pairs[i])
        known = (target != self.missing).float()
        mean, share = (functional.avg_pool2d(x, self.factor) for x in (target * known, known))
        small = nearest(mean / share.clamp_min(1e-6), share > 0)
        return {"number": i, "small": small, "guide": guide, "target": target, "known": known}

    def _cut(self, image):
        sizes = [min(n, self.side or n) // self.multiple * self.multiple for n in image.shape[1:]]
        top, left = ((n - size) // 2 for n, size in zip(image.shape[1:], sizes, strict=True))
        return image[:, top : top + sizes[0], left : left + sizes[1]].contiguous()


class RandomParts(Dataset):
    """Random crops of samples, mirrored at random."""

    def __init__(self, samples, factor, side):
        self.samples, self.factor, self.side = samples, factor, side

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        sample = dict(self.samples[i])
        small, factor = sample["small"], self.factor
        sizes = [min(n, self.side // factor) for n in small.shape[1:]]
        top, left = (
            int(torch.randint(n - size + 1, ()))
            for n, size in zip(small.shape[1:], sizes, strict=True)
        )
        mirrored = bool(torch.rand(()) < 0.5)
        for name in ("small", "guide", "target", "known"):
            step = 1 if name == "small" else factor
            rows, columns = (slice(step * at, step * (at + size)) for at, size in
                             zip((top, left), sizes, strict=True))  # fmt: skip
            part = sample[name][:, rows, columns]
            sample[name] = part.flip(2) if mirrored else part.contiguous()
        return sample


def nearest(small, known):
    """Fill unknown pixels with the value of the nearest known one."""
    if known.all():
        return small
    _, rows, columns = ndimage.distance_transform_edt(
        ~known.numpy(), sampling=(1e6, 1, 1), return_distances=False, return_indices=True
    )
    return small[torch.arange(len(small)).view(-1, 1, 1), rows, columns]


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
