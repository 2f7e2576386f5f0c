"""Shared by the bilateral network experiments: training and spatial networks."""

from functools import partial
from itertools import product

import torch
from scipy.spatial import cKDTree

from permutogeo.benchmarks.model_size import count_parameters
from permutogeo.train import Checkpoints, Confusion, Trainer, grid_search

# Choices of --normalize.
NORMALIZATIONS = {"before": "before", "after": "after", "symmetric": "symmetric", "none": None}


def place(args, name, suffix=""):
    """Return the output path of a network."""
    return args.output / (name.lower().replace(" ", "_").replace("%", "") + suffix)


def keep_small(name, model, args):
    """Write a model for ``from_pretrained`` if it supports that and is under a megabyte."""
    if hasattr(model, "save_pretrained") and count_parameters(model) < 250_000:
        model.save_pretrained(place(args, name, ".safetensors"))


def trainer_of(model, args, lr, epochs, classes, monitor, name=None, **settings):
    """Return a trainer with cross-entropy loss; a named one writes checkpoints and resumes."""
    return Trainer(
        model, "logistic", settings.pop("optimizer", "sgd"), lr=lr, epochs=epochs, seed=args.seed,
        checkpoints=Checkpoints(
            place(args, name) if name else None, resume=True, monitor=monitor, maximize=True
        ),
        metric=Confusion(classes), progress=False, **settings,
    )  # fmt: skip


def choose_lr(name, loss, tried, args):
    """Return the learning rate with the lowest loss; trials are logged and reused."""
    return grid_search(loss, {"lr": tried}, log=place(args, f"lr {name}", ".csv")).best["lr"]


def epoch_printer(name, column):
    """Return a callback that prints a line per epoch."""
    return lambda row: print(
        f"{name}: {row['steps']} steps, {row['seconds']:.0f} s, loss {row['train_loss']:.4f}, "
        f"validation {column} {row[column]:.4f}",
        flush=True,
    )


def first_at(rows, column, level):
    """Return the first row that reaches a level, or None."""
    return next((row for row in rows if row[column] >= level), None)


class SpatialTwin(torch.nn.Module):
    """The spatial counterpart of a BNN: a ``Conv2d`` first layer on the interpolated input.

    Args:
        network: A :class:`~permutogeo.models.BNNLeNet` or
            :class:`~permutogeo.models.BNNDeepCNet` whose other layers are used.
        kernel: Kernel size of the first layer.
        side: Side of the grid; features are positions on it.
        interpolation: One of ``INTERPOLATIONS``.
    """

    def __init__(self, network, kernel, side, interpolation="bilinear"):
        super().__init__()
        conv = network.first.conv
        self.side, self.interpolation = side, interpolation
        self.first = torch.nn.Conv2d(conv.in_channels, conv.out_channels, kernel)
        torch.nn.init.kaiming_normal_(self.first.weight, nonlinearity="relu")
        torch.nn.init.zeros_(self.first.bias)
        self.rest = network.rest

    def forward(self, x, feature, batch=None):
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        interpolate = INTERPOLATIONS[self.interpolation]
        grid = interpolate(x[:, 0], feature, batch, int(batch.max()) + 1, self.side)
        # Channels last, like the output of the bilateral layer: it halves the time.
        return self.rest(self.first(grid.to(memory_format=torch.channels_last)))


class ConvNet(torch.nn.Module):
    """A plain convolutional network with batch normalization on the interpolated input.

    Args:
        side: Side of the grid; features are positions on it.
        hidden_channels: Channels of the first layer; pooling doubles them.
        out_channels: Number of classes.
        depth: Number of poolings.
    """

    def __init__(self, side, hidden_channels, out_channels, depth):
        super().__init__()
        self.side, width, layers = side, 1, []
        for level in range(depth + 1):
            after = hidden_channels * 2**level
            conv = torch.nn.Conv2d(width, after, 3, padding=1, bias=False)
            pool = [torch.nn.MaxPool2d(2)] if level < depth else []
            layers += [conv, torch.nn.BatchNorm2d(after), torch.nn.ReLU(), *pool]
            width = after
        area = (side // 2**depth) ** 2
        self.layers = torch.nn.Sequential(
            *layers, torch.nn.Flatten(), torch.nn.Linear(area * width, out_channels)
        )

    def forward(self, x, feature, batch=None):
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        grid = bilinear(x[:, 0], feature, batch, int(batch.max()) + 1, self.side)
        return self.layers(grid.to(memory_format=torch.channels_last))


def bilinear(x, feature, batch, count, side, divide=True):
    """Return the bilinearly weighted mean, or sum, of the points around each pixel, or 0."""
    low = feature.floor().clamp(0, side - 2).long()
    part, sums = feature - low, x.new_zeros(count * side**2, 2)
    for right, down in product((0, 1), (0, 1)):
        weight = (1 - right - part[:, 0]).abs() * (1 - down - part[:, 1]).abs()
        index = (batch * side + low[:, 1] + down) * side + low[:, 0] + right
        sums.index_add_(0, index, torch.stack([weight * x, weight], 1))
    grid = sums[:, 0] / torch.where(sums[:, 1] > 0, sums[:, 1], 1.0) if divide else sums[:, 0]
    return grid.view(count, 1, side, side)


def mean(x, feature, *rest):
    """Return the mean of the points in each pixel, or 0."""
    return bilinear(x, feature.round(), *rest)


def nearest(x, feature, batch, count, side):
    """Return the value of the point nearest to each pixel."""
    apart = torch.cat([feature, 4.0 * side * batch[:, None]], 1)
    grid = torch.cartesian_prod(*(torch.arange(n) for n in (count, side, side))).flip(1)
    grid = grid * torch.tensor([1.0, 1.0, 4.0 * side])
    found = cKDTree(apart.numpy()).query(grid.numpy())[1]
    return x[torch.from_numpy(found)].view(count, 1, side, side)


INTERPOLATIONS = {
    "bilinear": bilinear,
    "density": partial(bilinear, divide=False),
    "mean": mean,
    "nearest": nearest,
}
