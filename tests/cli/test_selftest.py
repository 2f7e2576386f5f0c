import importlib

import pytest
import torch
from typer.testing import CliRunner

from permutogeo.cli import app
from permutogeo.lattice import Lattice

selftest = importlib.import_module("permutogeo.cli.selftest")  # the command has its name


def test_passes_and_prints_a_block():
    result = CliRunner().invoke(app, ["selftest", "--quick"])
    assert result.exit_code == 0, result.output
    block = result.stdout.strip().splitlines()
    assert block[0] == block[-1] == "```"
    assert "0 checks failed" in block[-2] and "FAILED" not in result.stdout
    assert any(line.startswith("ok     oracle, d = 2") for line in block)
    assert sum(line.startswith("time") for line in block) == 3


def test_a_wrong_kernel_is_found(monkeypatch):
    """A filter that is off by one part in a thousand fails the oracle and the adjoint."""
    blur = Lattice.blur
    monkeypatch.setattr(
        Lattice,
        "blur",
        lambda self, values, transpose=False: (
            blur(self, values, transpose) * (1 if transpose else 1.001)
        ),
    )
    result = CliRunner().invoke(app, ["selftest", "--quick"])
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
    assert any("oracle" in line for line in lines) and any("adjoint" in line for line in lines)


def test_an_exception_is_a_failed_check(monkeypatch):
    monkeypatch.setattr(selftest, "gradient_error", lambda device: 1 / 0)
    result = CliRunner().invoke(app, ["selftest", "--quick"])
    assert result.exit_code == 1 and "FAILED gradients, d = 2: ZeroDivisionError" in result.stdout


def test_unknown_device():
    result = CliRunner().invoke(app, ["selftest", "--device", "tpu"])
    assert result.exit_code == 1
    assert "Error: Expected a device of this machine (got 'tpu'" in result.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_missing_cuda():
    result = CliRunner().invoke(app, ["selftest", "--device", "cuda"])
    assert result.exit_code == 1 and "Traceback" not in result.output


@pytest.mark.parametrize("seed", range(3))
def test_random_lattices(seed):
    feature = 3 * torch.randn(50, 3, dtype=torch.float64)
    assert selftest.oracle_error(feature, torch.arange(50) % 2, "cpu", seed) < 1e-12
