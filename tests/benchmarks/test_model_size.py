import pytest
import torch

from permutogeo import Lattice
from permutogeo.benchmarks.model_size import count_parameters, operations
from permutogeo.models import BNNLeNet
from permutogeo.nn import LatticeConv


def test_parameters():
    assert count_parameters(torch.nn.Linear(3, 5)) == 20
    assert count_parameters(torch.nn.ReLU()) == 0


def test_operations():
    """Products by hand: of a spatial layer, a linear one, and one on the lattice."""
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten(), torch.nn.Linear(80, 7)
    )
    assert operations(layers, lambda m: m(torch.rand(2, 3, 6, 6))) == pytest.approx(
        (2 * 5 * 16 * 27 + 2 * 80 * 7) / 1e6
    )
    lattice = Lattice.build(4 * torch.rand(30, 2))
    conv = torch.nn.Sequential(LatticeConv(3, 5, dim=2))
    values = lattice.splat(torch.rand(30, 3))
    wanted = lattice.num_vertices * 7 * 15 / 1e6
    assert operations(conv, lambda m: m[0](values, lattice)) == pytest.approx(wanted)
    stem = BNNLeNet(1, 10, extent=20.0, side=28)
    got = operations(stem, lambda m: m(torch.ones(9, 1), 20 * torch.rand(9, 2)))
    rest = 50 * 64 * 500 + 500 * 800 + 5000
    assert rest / 1e6 < got < (rest + 7 * 20 * 1000) / 1e6
