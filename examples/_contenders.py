"""Contenders of the comparison of models, by name and about of one size."""

from bisect import bisect_left
from functools import partial

import torch

from permutogeo.benchmarks.baselines import BASELINES
from permutogeo.benchmarks.model_size import count_parameters
from permutogeo.models import BilateralTransformer, LatticeNet, LatticeUNet, SplatNet

LATTICE = {
    "LatticeUNet": LatticeUNet,
    "LatticeNet": partial(LatticeNet, num_layers=1, depth=2),
    "BilateralTransformer": BilateralTransformer,
    "SplatNet": SplatNet,
}


class LatticeModel(torch.nn.Module):
    """A lattice model called with a batch of PyG."""

    def __init__(self, make, data, hidden_channels, out_channels, **options):
        super().__init__()
        options |= getattr(make, "keywords", {})
        self.model = getattr(make, "func", make).from_data(
            data, hidden_channels, out_channels, **options
        )

    def forward(self, data):
        return self.model(data.x, data.pos, data.batch)


def build(name, task, parameters):
    """Return a contender whose width gives about the wanted number of parameters."""
    sample = [as_input(item, task) for item in task.parts[0][:: len(task.parts[0]) // 8 or 1]]
    channels = sample[0].x.shape[1]

    def make(width):
        if name in LATTICE:
            # The baselines see the whole graph too.
            context = name != "SplatNet" and task.kind == "point"
            options = {"context": True} if context else {}
            return LatticeModel(LATTICE[name], sample, width, task.classes, **options)
        return BASELINES[name](name, channels, width, task.classes, task.kind)

    def size(width):
        return count_parameters(make(width))

    widths = range(8, 161, 4)
    above = bisect_left(widths, parameters, hi=len(widths) - 1, key=size)
    return make(min(widths[max(above - 1, 0) : above + 1], key=lambda w: abs(size(w) - parameters)))


def as_input(item, task):
    """Return an item with its input values, without what no network reads."""
    out = type(item)(**item.to_dict())
    out.x = task.values(item)
    for key in ("face", "normal"):
        if key in out:
            del out[key]
    return out
