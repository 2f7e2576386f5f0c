"""Benchmarks run, whatever they measure; no test fails because a machine is slow."""

import pytest
import torch
from typer.testing import CliRunner

from permutogeo.benchmarks import BENCHMARKS
from permutogeo.benchmarks.peers import TorchLayer, gather_gemm_scatter
from permutogeo.cli import app
from permutogeo.lattice import Lattice


@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick(name, tmp_path):
    pytest.importorskip("skimage")
    before = torch.get_num_threads()
    result = CliRunner().invoke(app, ["bench", name, "--quick"])
    assert result.exit_code == 0, result.output
    assert torch.get_num_threads() == before


def test_unknown_name():
    result = CliRunner().invoke(app, ["bench", "warmth"])
    assert result.exit_code == 2
    assert "warmth" in result.output and "bilateral" in result.output


def test_the_plain_torch_peers_compute_the_same():
    """A peer that computed something else would be no peer."""
    feature, x = torch.rand(300, 3) * 6, torch.rand(300, 4)
    filter = torch.rand(15, 4, 5)
    lattice = Lattice.build(feature)
    values = lattice.splat(x)
    convolved = lattice.convolve(values, filter)
    expected = lattice.slice(convolved)
    torch.testing.assert_close(TorchLayer(feature)(x, filter), expected, rtol=1e-4, atol=1e-4)
    taps = gather_gemm_scatter(values, filter, lattice.neighbors())
    torch.testing.assert_close(taps, convolved, rtol=1e-4, atol=1e-4)
