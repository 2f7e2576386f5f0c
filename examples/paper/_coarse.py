"""A small convolutional network of output stride 8, for predictions to be refined."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from permutogeo.train import Trainer


class Block(nn.Module):
    """A residual convolution."""

    def __init__(self, channels, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        return x + self.conv(functional.relu(self.norm(x)))


class CoarseNet(nn.Module):
    """Predicts at an eighth of the resolution; a global mean adds the context of the image.

    Args:
        out_channels: Size of each output sample.
        hidden_channels: Channels at the output resolution.
    """

    def __init__(self, out_channels, hidden_channels=32):
        super().__init__()
        widths = (3, hidden_channels // 4, hidden_channels // 2, hidden_channels)
        layers = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 4, 2, 1), nn.ReLU(), Block(after, 1)]
        layers += [Block(hidden_channels, dilation) for dilation in (1, 2, 4)]
        self.layers = nn.Sequential(*layers)
        self.context = nn.Linear(hidden_channels, hidden_channels)
        self.head = nn.Conv2d(hidden_channels, out_channels, 1)

    def forward(self, image):
        """Return predictions ``[B, L, H / 8, W / 8]`` of images ``[B, 3, H, W]`` in [0, 1]."""
        x = self.layers(2 * image - 1)
        x = x + self.context(x.mean((2, 3)))[..., None, None]
        return self.head(functional.relu(x))


def train_coarse(out_channels, pairs, loss, epochs, seed, batch_size=8, lr=2e-3):
    """Return a network trained on pairs of image and target.

    Args:
        out_channels: Size of each output sample.
        pairs: A sequence of pairs.
        loss: Loss of :class:`permutogeo.train.Trainer`.
        epochs: Number of passes over the pairs.
        seed: Random seed.
        batch_size: Pairs in a step.
        lr: The learning rate.
    """
    torch.manual_seed(seed)
    trainer = Trainer(
        CoarseNet(out_channels), loss, "adam", lr=lr, schedule="cosine", epochs=epochs, seed=seed,
        progress=False,
    )  # fmt: skip
    trainer.fit(DataLoader(pairs, batch_size, shuffle=True))
    return trainer.model.eval()
