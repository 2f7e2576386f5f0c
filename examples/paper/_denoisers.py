"""Denoisers of ``denoise_images.py``: single filters and networks.

Each maps the pixels of an image, with noisy intensities ``x``, to clean intensities.
"""

import math
from itertools import chain, pairwise

import torch

from permutogeo.models import BilateralNet
from permutogeo.nn import BilateralConv
from permutogeo.transforms import BilateralFeature

SIGMA = 25 / 255


class ConvNet(torch.nn.Module):
    """Convolutions that predict the residual noise, after DnCNN (https://arxiv.org/abs/1608.03981)."""

    def __init__(self, channels=32, depth=6):
        super().__init__()
        widths = [1, *[channels] * (depth - 1), 1]
        convs = [torch.nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths)]
        between = [[conv, torch.nn.ReLU()] for conv in convs[:-1]]
        self.layers = torch.nn.Sequential(*chain(*between), convs[-1])

    def forward(self, data):
        noisy = _unit(data.x).view(-1, 1, *_size(data))
        return data.x - SIGMA * self.layers(noisy).view(-1, 1)


class Noisy(torch.nn.Module):
    """The identity."""

    def forward(self, data):
        return data.x


class Spatial(torch.nn.Module):
    """One 5 x 5 filter, initialized as a scaled box filter."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 5, padding=2, padding_mode="reflect", bias=False)
        torch.nn.init.constant_(self.conv.weight, factor / 25)

    def forward(self, data):
        return self.conv(data.x.view(1, 1, data.height, data.width)).view(-1, 1)


class Bilateral(torch.nn.Module):
    """One filter of 65 taps over position and noisy intensity, initialized as the Gaussian."""

    def __init__(self, scale):
        super().__init__()
        self.feature = BilateralFeature(**scale)
        self.conv = BilateralConv(1, 1, 3, 2, bias=False, shared=True, normalize="after")

    def forward(self, data):
        return self.conv(data.x, self.feature(data).feature)


class Both(torch.nn.Module):
    """The sum of a spatial and a bilateral filter, initialized as the Gaussian alone."""

    def __init__(self, scale):
        super().__init__()
        self.spatial, self.bilateral = Spatial(0.0), Bilateral(scale)

    def forward(self, data):
        return self.spatial(data) + self.bilateral(data)


class Network(torch.nn.Module):
    """Two stacks of bilateral convolutions, each predicting the residual noise.

    The lattice of the first has a vertex per pixel. The lattice of the second is over position and
    the intensity that the first predicts, so that similar pixels are neighbors.
    """

    def __init__(self, channels=24, passed=8, scale=None):
        super().__init__()
        self.scale = scale or {"pos": 3.0, "clean": 0.1}
        self.near = BilateralNet(1, channels, 1 + passed, 2, 4, 2, init="kaiming")
        self.far = BilateralNet(2 + passed, channels, 1, 3, 3, init="kaiming")
        torch.nn.init.zeros_(self.far.predict.weight)

    def forward(self, data):
        """Return the image; in training mode also the output of the first stack."""
        x, y = data.pos.T
        # Sheared so that pixel steps are lattice steps.
        grid = torch.stack([math.sqrt(0.75) * y, x - y / 2], 1)
        found = self.near(_unit(data.x), grid, data.batch)
        first = data.x - SIGMA * found[:, :1]
        data = data.clone()
        data.clean = first.detach()
        feature = BilateralFeature(**self.scale)(data).feature
        known = torch.cat([_unit(data.x), _unit(first), found[:, 1:]], 1)
        last = first - SIGMA * self.far(known, feature, data.batch)
        return torch.cat([first, last], 1) if self.training else last


def _size(data):
    """Return the height and width of an image, or of all images of a batch."""
    return [int(torch.as_tensor(size).flatten()[0]) for size in (data.height, data.width)]


def _unit(x):
    """Scale intensities to about zero mean and unit variance."""
    return 4 * x - 2
