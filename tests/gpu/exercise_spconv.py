"""Runs the layers of ``compat.spconv`` on the simulated device, beside the same on the CPU.

Usage: ``exercise_spconv.py FOLDER``, which takes headers and kernels.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from atomic_headers import use_atomic_headers
from fake_cuda import FakeCuda, contents, on_device  # first

import permutogeo.compat.spconv.pytorch as spconv

SHAPES = {1: (300,), 2: (20, 17), 3: (9, 10, 8), 4: (5, 6, 4, 5)}


def tensor(ndim, place):
    generator = torch.Generator().manual_seed(ndim)
    indices = (torch.rand(2, *SHAPES[ndim], generator=generator) < 0.3).nonzero().int()
    indices = indices[torch.randperm(len(indices), generator=generator)]
    features = torch.randn(len(indices), 5, generator=generator, dtype=torch.float64)
    return spconv.SparseConvTensor(place(features), place(indices), SHAPES[ndim], 2)


def layers(ndim):
    def make(name, *args, **options):
        return getattr(spconv, f"{name}{ndim}d")(*args, **options)

    key = {"indice_key": "down"}
    yield [make("SubMConv", 5, 4, 3, dilation=2)]
    yield [make("SparseConv", 5, 4, 3, 2, 1, **key), make("SparseInverseConv", 4, 5, 3, **key)]
    yield [make("SparseConvTranspose", 5, 4, 2, 2)]
    yield [make("SparseMaxPool", 3, 2, 1)]


def run(several, x):
    for layer in several:
        x = layer(x)
    return x


def main(folder):
    use_atomic_headers(Path(folder), False)
    torch.manual_seed(0)
    compared = 0
    for ndim in SHAPES:
        for several in layers(ndim):
            with torch.no_grad():
                wanted = run([layer.double() for layer in several], tensor(ndim, torch.clone))
                fake = FakeCuda()
                parameters = [p for layer in several for p in layer.parameters()]
                for parameter in parameters:
                    parameter.on_host = parameter.data.on_host = False
                with fake.active():
                    found = run(several, tensor(ndim, on_device))
            np.testing.assert_array_equal(contents(found.indices), wanted.indices.numpy())
            features = contents(found.features)
            np.testing.assert_allclose(features, wanted.features, rtol=1e-12, atol=1e-14)
            assert fake.schedule.launches > 0
            compared += 1
    print(f"{compared} compared")


if __name__ == "__main__":
    main(sys.argv[1])
