"""Image denoising with learned bilateral filters: the paper's ``tab:denoising``
=============================================================================

Adds Gaussian noise of standard deviation 25/255 to the gray images of BSDS500 and removes it by a
learned 5 x 5 filter, by a Gaussian bilateral filter whose bandwidths are searched on the training
part, by learned bilateral filters, by a network of bilateral convolutions, and by one of plain
convolutions; scikit-image's and OpenCV's filters are added where installed. Writes a table,
``results.json``, the PSNR of each image, training curves, pictures and a page; resumes if
interrupted. Expect 26.2, 27.1, 27.3 and 27.4 dB for the paper's four rows, 28.6 dB for the network
of bilateral convolutions, and 27.7 dB for plain ones, which see fewer crops
(docs/reproduction.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/paper/denoise_images.py
"""

import math
import time
import zlib

import torch
from _denoisers import SIGMA, Bilateral, Both, ConvNet, Network, Noisy, Spatial
from torch.utils.data import DataLoader, RandomSampler, Subset
from torch_geometric.loader import DataLoader as BatchLoader

from permutogeo.benchmarks.experiment import DATA, arguments, load_or_exit, record
from permutogeo.benchmarks.image_denoisers import ImageDenoiser, image_denoisers
from permutogeo.datasets import BSDS500
from permutogeo.ops import stencils
from permutogeo.train import Checkpoints, Mean, Trainer, mse_step, scale_search, write_csv
from permutogeo.viz import filter_slices, image_panels

PAPER = {"noisy": 20.17, "spatial": 26.27, "gauss": 26.51, "learned": 26.58, "both": 26.65}
LONG = {
    "noisy": "Noisy input",
    "spatial": "Spatial 5 x 5, learned",
    "gauss": "Gauss bilateral",
    "learned": "Learned bilateral",
    "both": "Spatial + bilateral, learned",
    "network": "BilateralNet",
    "cnn": "Convolutions 3 x 3, 6 layers",
}


def add_noise(data):
    data.y, data.x = data.x, data.x + SIGMA * torch.randn(data.x.shape)
    return data


def add_fixed_noise(data):
    """Add noise seeded by the name of the image."""
    with torch.random.fork_rng():
        torch.manual_seed(zlib.crc32(data.name.encode()))
        return add_noise(data)


def crop(data, side, corner=None):
    """Return a square crop; without a corner a random one, rotated and mirrored."""
    image = data.x.view(data.height, data.width)
    room = [size - side + 1 for size in image.shape]
    turn = 0
    if corner is None:
        corner = [int(torch.randint(size, ())) for size in room]
        turn = int(torch.randint(8, ()))
    top, left = corner
    image = torch.rot90(image[top : top + side, left : left + side], turn % 4)
    data.x = (image.flip(1) if turn >= 4 else image).reshape(-1, 1)
    inside = (data.pos < side).all(1)
    data.pos, data.height, data.width = data.pos[inside], side, side
    return data


def middle(data, side):
    return crop(data, side, [(data.height - side) // 2, (data.width - side) // 2])


def psnr(out, clean):
    return -10 * math.log10(float((out - clean).square().mean()))


def predict(model, data):
    out = model(data)
    return out, data.y.expand_as(out)


class Experiment:
    """The images, and the filters searched and trained on them."""

    def __init__(self, args):
        self.args = args
        self.parts = {
            split: load_or_exit(
                BSDS500, args.data, split, gray=True, transform=self._prepare(split)
            )
            for split in ("train", "val", "test")
        }
        few = {"train": 2, "val": 1, "test": 1} if args.quick else {"val": 20}
        for split, count in few.items():
            images = self.parts[split]
            self.parts[split] = Subset(images, range(0, len(images), len(images) // count)[:count])

    def _prepare(self, split):
        side = self.args.side
        if split == "train":
            return lambda data: add_noise(crop(data, side))
        if split == "val" or self.args.quick:
            return lambda data: add_fixed_noise(middle(data, 2 * side))
        return add_fixed_noise

    def choose(self, name, make, start):
        """Return the settings with the best PSNR on center crops of training images."""
        args, side = self.args, 2 * self.args.side
        images = BSDS500(args.data, "train", gray=True, transform=lambda d: middle(d, side))
        images = [add_fixed_noise(images[i]) for i in range(0, 200, 200 // args.chosen)]

        def score(**settings):
            model = make(settings)
            return sum(psnr(model(data), data.y) for data in images) / len(images)

        log = args.output / f"search_{_file(name)}.csv"
        limits = {"levels": 3, "max_trials": args.trials}
        with torch.no_grad():
            return scale_search(score, start, maximize=True, log=log, **limits).best

    def learn(self, model, name, lr, epochs, batch_size=None, steps=None):
        """Train with squared error and keep the best epoch on the validation part."""
        args = self.args
        trainer = Trainer(
            model, mse_step(predict), "adam", lr=lr, epochs=epochs, schedule="one_cycle",
            seed=args.seed,
            checkpoints=Checkpoints(
                args.output / name, resume=True, save_every=100, monitor="psnr", maximize=True
            ),
            metric=Mean(lambda model, data: {"psnr": (psnr(model(data), data.y), 1)}),
        )  # fmt: skip
        kind = DataLoader if batch_size is None else BatchLoader
        count = (batch_size or 1) * (steps or len(self.parts["train"]))
        sampler = RandomSampler(self.parts["train"], replacement=True, num_samples=count)
        train = kind(self.parts["train"], batch_size=batch_size, sampler=sampler)
        rows = trainer.fit(train, DataLoader(self.parts["val"], batch_size=None))
        trainer.load_best()
        model.trained = rows[-1]["seconds"]
        return model

    def make(self, name):
        """Return the model of a row, searched or trained, independent of other rows."""
        args = self.args
        torch.manual_seed(args.seed)
        if name == "noisy":
            return Noisy()
        if name == "spatial":
            return self.learn(Spatial(), name, 0.003, args.epochs)
        if name == "network":
            model = Network(args.channels)
            return self.learn(model, name, args.lr, args.network_epochs, 4, args.steps)
        if name == "cnn":
            # As many crops as the single filters are trained on.
            steps = max(1, len(self.parts["train"]) // 4)
            return self.learn(ConvNet(), name, 0.003, args.epochs, 4, steps)
        if name in (others := image_denoisers(SIGMA)):
            function, start = others[name]
            found = self.choose(name, lambda settings: ImageDenoiser(function, settings), start)
            return ImageDenoiser(function, found)
        scale = self.choose("gauss", Bilateral, {"pos": 1.5, "intensity": 0.3})
        model = Both(scale) if name == "both" else Bilateral(scale)
        return model if name == "gauss" else self.learn(model, name, 0.003, args.epochs)

    @torch.no_grad()
    def test(self, name, model):
        """Return the row of a method; write the PSNR of each test image to a CSV file."""
        model.eval()
        start = time.perf_counter()
        rows = [{"image": d.name, "psnr": psnr(model(d), d.y)} for d in self.parts["test"]]
        seconds = (time.perf_counter() - start) / len(rows)
        write_csv(rows, self.args.output / f"test_{_file(name)}.csv")
        mean = sum(row["psnr"] for row in rows) / len(rows)
        print(f"{name}: {mean:.2f} dB", flush=True)
        settings = getattr(model, "settings", None) or getattr(model, "feature", None)
        return {
            "PSNR in dB": f"{mean:.2f}",
            "paper": PAPER.get(name),
            "weights": sum(parameter.numel() for parameter in model.parameters()) or None,
            "seconds an image": seconds,
            "seconds to train": getattr(model, "trained", None),
            "settings": str(settings) if settings else None,
        }

    @torch.no_grad()
    def draw(self, models):
        """Draw a test image by each method, and the learned filter beside the Gaussian."""
        output, data = self.args.output, self.parts["test"][0]
        size = data.height, data.width
        images, notes = {"Clean": data.y.view(size)}, {"Clean": " "}
        for name, model in models.items():
            out = model.eval()(data)
            images[LONG.get(name, name)] = out.view(size)
            notes[LONG.get(name, name)] = f"{psnr(out, data.y):.2f} dB"
        side = min(size) // 3
        detail = (size[1] // 2 - side // 2, size[0] // 2 - side // 2, side, side * 3 // 4)
        pictures = {"A test image and a detail of it, by each method": output / "images.png"}
        image_panels(images, output / "images.png", notes=notes, crop=detail, columns=4)
        if "learned" in models:
            taps = {"Gaussian": stencils.gaussian(3, 2)}
            taps["learned"] = models["learned"].conv.filter_weight
            path, names = output / "filters.png", ["x", "y", "intensity"]
            filter_slices(taps, 3, 2, path, names=names)
            pictures["The Gaussian and the learned filter, in bandwidths"] = path
        return pictures


def _file(name):
    return name.replace(" ", "_")


def main():
    parser = arguments(
        __doc__, "crops of a few images", data=DATA,
        epochs=(8, "epochs of the single filters"), network_epochs=10,
        steps=(250, "steps per epoch of the network"), channels=(24, "of the network"),
        lr=(0.002, "of the network"), side=(64, "side of the training crops"),
        chosen=(10, "images for the bandwidth search"),
        trials=(16, "bandwidths to try before the last round"),
    )  # fmt: skip
    parser.add_argument("--methods", nargs="+", help="rows of the table; all by default")
    args = parser.parse_args()
    if args.quick:
        args.epochs, args.network_epochs, args.steps, args.channels = 1, 1, 1, 8
        args.side, args.chosen, args.trials = 24, 1, 2
    args.output.mkdir(parents=True, exist_ok=True)
    experiment, models, table = Experiment(args), {}, {}
    for name in args.methods or [*LONG, *image_denoisers(SIGMA)]:
        models[name] = experiment.make(name)
        table[LONG.get(name, name)] = experiment.test(name, models[name])
    record(
        args, "Image denoising", {"Test images": table}, experiment.draw(models),
        text="BSDS500 gray, noise of standard deviation 25/255; mean PSNR of "
        f"{len(experiment.parts['test'])} test images.",
    )  # fmt: skip


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/denoise_images_filters.png"
