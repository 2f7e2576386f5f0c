"""State dicts of spconv load, and outputs and gradients agree with it to 1e-5."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import permutogeo.compat.spconv.pytorch as spconv

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """The folder of spconv's own results."""
    pytest.importorskip("cumm")
    folder = tmp_path_factory.mktemp("spconv")
    command = [sys.executable, str(FOLDER / "networks.py"), str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


def check(networks, build, ndim, path, gradients=1e-5):
    found = {key: torch.from_numpy(value) for key, value in np.load(path).items()}
    model = build(spconv)
    prefix = "state "
    state = {k.removeprefix(prefix): found.pop(k) for k in list(found) if k.startswith(prefix)}
    model.load_state_dict(state)
    ours = networks.run(spconv, model, ndim)
    assert ours.keys() == found.keys()
    for key, expected in found.items():
        scale = max(1.0, float(expected.double().abs().max())) if expected.numel() else 1.0
        error = (ours[key].double() - expected.double()).abs().max() / scale
        bound = gradients if key.startswith("gradient") else 1e-5
        assert ours[key].shape == expected.shape and error < bound, (key, float(error))


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_layers(networks, peer, ndim):
    names = []
    for name, build, dim in networks.cases():
        if dim == ndim and f"{ndim}d" in name:
            check(networks, build, ndim, peer / f"{name}.npz")
            names.append(name)
    assert len(names) == 16


@pytest.mark.parametrize("name", ["unet", "transformer"])
def test_networks(networks, peer, name):
    # The gradients of several layers pass through normalizations, which magnify rounding.
    check(networks, getattr(networks, name), 3, peer / f"{name}.npz", gradients=1e-4)
