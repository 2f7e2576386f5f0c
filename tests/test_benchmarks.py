"""Every benchmark runs with ``--quick``; its figures are not checked."""

import pytest
import torch
from typer.testing import CliRunner

from permutogeo.benchmarks import BENCHMARKS
from permutogeo.benchmarks.peers import TorchLayer, gather_gemm_scatter
from permutogeo.cli import app
from permutogeo.lattice import Lattice


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick(name):
    pytest.importorskip("skimage")
    before = torch.get_num_threads()
    result = CliRunner().invoke(app, ["bench", name, "--quick"])
    assert result.exit_code == 0, result.output
    assert torch.get_num_threads() == before


def test_unknown_name():
    result = CliRunner().invoke(app, ["bench", "warmth"])
    assert result.exit_code == 2
    assert "warmth" in result.output and "bilateral" in result.output


def test_plain_torch_baselines_compute_the_same():
    feature, x = torch.rand(300, 3) * 6, torch.rand(300, 4)
    filter = torch.rand(15, 4, 5)
    lattice = Lattice.build(feature)
    values = lattice.splat(x)
    convolved = lattice.convolve(values, filter)
    expected = lattice.slice(convolved)
    torch.testing.assert_close(TorchLayer(feature)(x, filter), expected, rtol=1e-4, atol=1e-4)
    taps = gather_gemm_scatter(values, filter, lattice.neighbors())
    torch.testing.assert_close(taps, convolved, rtol=1e-4, atol=1e-4)
