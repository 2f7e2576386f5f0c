"""Layers and networks written for spconv: every builder takes the library as its argument.

``networks.py FOLDER`` runs them all with the original and writes weights, outputs and gradients.
Its CPU code is right with OMP_NUM_THREADS=1 only, so it needs a process of its own.
"""

import sys
from collections import OrderedDict
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

SHAPES = {1: (60,), 2: (13, 11), 3: (9, 10, 8), 4: (5, 6, 4, 5)}
LAYERS = {
    "SubMConv": [
        {"kernel_size": 3},
        {"kernel_size": 3, "dilation": 2, "bias": False},
        {"kernel_size": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1},  # both ignored
    ],
    "SparseConv": [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 2, "bias": False},
        {"kernel_size": 3, "dilation": 2, "padding": 1},
        {"kernel_size": 1, "stride": 2},
        {"kernel_size": 1},
    ],
    "SparseConvTranspose": [
        {"kernel_size": 3, "stride": 2},
        {"kernel_size": 2, "stride": 2, "padding": 1},
    ],
    "SparseMaxPool": [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}],
}


def voxels(ndim=3, channels=5, batch=2, density=0.3, shape=None):
    """Distinct voxels in random order with positive features: spconv's pooling starts at 0."""
    shape = shape or SHAPES[ndim]
    generator = torch.Generator().manual_seed(ndim)
    indices = (torch.rand(batch, *shape, generator=generator) < density).nonzero().int()
    indices = indices[torch.randperm(len(indices), generator=generator)].contiguous()
    features = torch.rand(len(indices), channels, generator=generator)
    return features, indices, list(shape), batch


def layer(spconv, name, ndim, options):
    channels = () if "Pool" in name else (5, 4)
    return getattr(spconv, f"{name}{ndim}d")(*channels, **options)


def there_and_back(spconv, ndim, options):
    """A strided convolution and its inverse."""
    inverse = getattr(spconv, f"SparseInverseConv{ndim}d")
    size = options["kernel_size"]
    return spconv.SparseSequential(
        getattr(spconv, f"SparseConv{ndim}d")(5, 4, **options, indice_key="there"),
        inverse(4, 6, size, indice_key="there"),
    )


def residual_block(spconv, inputs, outputs, key):
    """Two submanifold convolutions beside a shortcut."""

    class Residual(spconv.SparseModule):
        def __init__(self):
            super().__init__()
            shortcut = spconv.SubMConv3d(inputs, outputs, kernel_size=1, bias=False)
            same = inputs == outputs
            self.shortcut = spconv.SparseSequential(nn.Identity() if same else shortcut)
            self.first = spconv.SubMConv3d(
                inputs, outputs, kernel_size=3, padding=1, bias=False, indice_key=key
            )
            self.second = spconv.SubMConv3d(
                outputs, outputs, kernel_size=3, padding=1, bias=False, indice_key=key
            )
            self.norm = nn.BatchNorm1d(outputs, eps=1e-3, momentum=0.01)
            self.relu = nn.ReLU()

        def forward(self, x):
            out = self.first(x)
            out = out.replace_feature(self.relu(self.norm(out.features)))
            out = self.second(out)
            return out.replace_feature(self.relu(out.features + self.shortcut(x).features))

    return Residual()


def unet(spconv, channels=(8, 12, 16)):
    """An encoder and decoder with skip connections, as in sparse semantic segmentation."""

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            norm = partial(nn.BatchNorm1d, eps=1e-3, momentum=0.01)
            self.stem = spconv.SparseSequential(
                spconv.SubMConv3d(
                    5, channels[0], kernel_size=5, padding=1, bias=False, indice_key="stem"
                ),
                norm(channels[0]),
                nn.ReLU(),
            )
            self.down, self.encode = nn.ModuleList(), nn.ModuleList()
            self.up, self.decode = nn.ModuleList(), nn.ModuleList()
            for s, (fine, coarse) in enumerate(pairwise(channels)):
                strided = spconv.SparseConv3d(
                    fine, coarse, kernel_size=2, stride=2, bias=False, indice_key=f"spconv{s}"
                )
                self.down.append(spconv.SparseSequential(strided, norm(coarse), nn.ReLU()))
                block = residual_block(spconv, coarse, coarse, f"subm{s + 1}")
                self.encode.append(spconv.SparseSequential(OrderedDict(block0=block)))
                inverse = spconv.SparseInverseConv3d(
                    coarse, fine, kernel_size=2, bias=False, indice_key=f"spconv{s}"
                )
                self.up.append(spconv.SparseSequential(inverse, norm(fine), nn.ReLU()))
                self.decode.append(residual_block(spconv, 2 * fine, fine, f"subm{s}"))
            self.final = spconv.SubMConv3d(channels[0], 3, kernel_size=1, padding=1, bias=True)

        def forward(self, x):
            x = self.stem(x)
            skips = [x]
            for down, encode in zip(self.down, self.encode, strict=True):
                x = encode(down(x))
                skips.append(x)
            x = skips.pop()
            for up, decode in zip(self.up[::-1], self.decode[::-1], strict=True):
                x, skip = up(x), skips.pop()
                x = decode(x.replace_feature(torch.cat([x.features, skip.features], 1)))
            return self.final(x)

    return UNet()


def transformer(spconv, channels=8, depth=2):
    """A stem and blocks with convolutional positional encoding, as in point transformers."""

    class Points:
        """Features of points that share one sparse tensor."""

        def __init__(self, x):
            self.sparse, self.feat = x, x.features

        def through(self, module):
            if spconv.modules.is_spconv_module(module):
                self.sparse = module(self.sparse)
                self.feat = self.sparse.features
            else:
                self.feat = module(self.feat)
                self.sparse = self.sparse.replace_feature(self.feat)
            return self

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.position = nn.ModuleList(
                [
                    spconv.SubMConv3d(
                        channels, channels, kernel_size=3, bias=True, indice_key="stage0"
                    ),
                    nn.Linear(channels, channels),
                    nn.LayerNorm(channels),
                ]
            )
            self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU())
            self.project = nn.Linear(2 * channels, channels)

        def forward(self, points):
            shortcut = points.feat
            for module in self.position:
                points.through(module)
            points.feat = shortcut + points.feat
            points.feat = points.feat + self.project(self.mlp(points.feat))
            points.sparse = points.sparse.replace_feature(points.feat)
            return points

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = spconv.SubMConv3d(
                5, channels, kernel_size=5, padding=1, bias=False, indice_key="stem"
            )
            self.norm = nn.BatchNorm1d(channels)
            self.blocks = nn.ModuleList([Block() for _ in range(depth)])

        def forward(self, x):
            points = Points(x).through(self.stem).through(self.norm).through(nn.GELU())
            for block in self.blocks:
                points = block(points)
            return points.sparse

    return Transformer()


def cases():
    """Name, builder and number of coordinates of each model."""
    for ndim in SHAPES:
        for name, several in LAYERS.items():
            for number, options in enumerate(several):
                build = partial(layer, name=name, ndim=ndim, options=options)
                yield f"{name}{ndim}d-{number}", build, ndim
        for number, options in enumerate(LAYERS["SparseConv"][:3]):
            build = partial(there_and_back, ndim=ndim, options=options)
            yield f"inverse{ndim}d-{number}", build, ndim
    yield "unet", unet, 3
    yield "transformer", transformer, 3


def run(spconv, model, ndim):
    """Return voxels, outputs and gradients of a model, the voxels in ascending order."""
    features, *rest = voxels(ndim)
    features.requires_grad_()
    out = model(spconv.SparseConvTensor(features, *rest))
    order = np.lexsort(out.indices.numpy().T[::-1])
    # Positive weights: sums that cancel would magnify rounding.
    weight = torch.linspace(0.5, 1.5, out.features.numel()).view(out.features.shape)
    (out.features[order] * weight).sum().backward()
    gradients = {f"gradient {name}": p.grad for name, p in model.named_parameters()}
    return {
        "shape": torch.tensor(out.spatial_shape),
        "indices": out.indices[order],
        "features": out.features.detach()[order],
        "gradient of the input": features.grad,
        **gradients,
    }


def main(folder):
    import spconv.pytorch as spconv
    from spconv.pytorch import cppcore, ops

    ops.get_current_stream = cppcore.get_current_stream = lambda: 0  # its backward asks for CUDA's
    torch.manual_seed(0)
    for name, build, ndim in cases():
        model = build(spconv)
        state = {f"state {key}": value.clone() for key, value in model.state_dict().items()}
        found = run(spconv, model, ndim) | state
        arrays = {key: value.detach().numpy() for key, value in found.items()}
        np.savez(Path(folder) / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
