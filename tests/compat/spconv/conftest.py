import importlib.util
from pathlib import Path

import pytest
import torch

import permutogeo.compat.spconv.pytorch as spconv


def load_networks():
    path = Path(__file__).parent / "networks.py"
    spec = importlib.util.spec_from_file_location("spconv_networks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def networks():
    """The module ``networks.py`` beside this file."""
    return load_networks()


@pytest.fixture
def sparse(networks):
    """Makes a sparse tensor of random voxels in random order."""

    def make(ndim=3, channels=5, dtype=torch.float32, **options):
        features, *rest = networks.voxels(ndim, channels, **options)
        # Features of both signs; none is zero.
        return spconv.SparseConvTensor((features - 0.4987).to(dtype), *rest)

    return make


@pytest.fixture
def at():
    """Reads the voxels of a sparse tensor from a dense one ``[B, C, *shape]``."""

    def read(dense, x):
        return dense.movedim(1, -1)[tuple(x.indices.long().t())]

    return read
