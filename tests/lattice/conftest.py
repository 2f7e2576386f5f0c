"""Random points, and the way from a lattice to the oracle."""

import numpy as np
import pytest
import torch

from permutogeo.testing import reference

DOUBLE = torch.float64


def cloud(count=60, dim=3, scale=4.0, dtype=DOUBLE, graphs=None):
    """Random features, and a batch vector in random order."""
    feature = torch.randn(count, dim, dtype=dtype) * scale
    return feature, None if graphs is None else torch.randint(graphs, (count,))


def full_key(lattice):
    """All ``d + 1`` coordinates of the vertices."""
    key = lattice.key.long()
    return torch.cat([key, -key.sum(1, keepdim=True)], 1)


def in_reference(lattice, oracle):
    """For each vertex of ``lattice`` its index in the oracle's numbering."""
    names = zip(lattice.vertex_batch.tolist(), map(tuple, full_key(lattice).tolist()), strict=True)
    return np.array([oracle.index[name] for name in names], dtype=np.int64)


def position(lattice):
    """Features of the vertices: the inverse of the elevation."""
    variance = sum(t * (i - len(lattice.taps) // 2) ** 2 for i, t in enumerate(lattice.taps))
    matrix = reference.elevate(np.eye(lattice.dim), variance / sum(lattice.taps)).T
    return torch.from_numpy(np.linalg.lstsq(matrix, full_key(lattice).numpy().T, rcond=None)[0].T)


@pytest.fixture(name="cloud")
def _cloud():
    return cloud


@pytest.fixture(name="full_key")
def _full_key():
    return full_key


@pytest.fixture(name="in_reference")
def _in_reference():
    return in_reference


@pytest.fixture(name="position")
def _position():
    return position
