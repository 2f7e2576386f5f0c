import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from permutogeo.train import load_state, load_weights, save_state, save_weights
from permutogeo.weights import write_safetensors

ROOT = Path(__file__).parent.parent.parent


def test_round_trip(tmp_path):
    state = {
        "numbers": [1, 0.1, -1e300, True, None, "text"],
        3: {"betas": (0.9, 0.999), "nested": [(), [], {}]},
        "a.b": torch.arange(4),
        "a": {"b": torch.zeros(0, 3), "half": torch.ones(2, dtype=torch.bfloat16)},
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }
    path = tmp_path / "state.safetensors"
    save_state(state, path)
    got = load_state(path)
    tensors = [got.pop("a.b"), got["a"].pop("b"), got["a"].pop("half"), got.pop("scalar")]
    expected = [state.pop("a.b"), state["a"].pop("b"), state["a"].pop("half"), state.pop("scalar")]
    assert got == state
    for ours, theirs in zip(tensors, expected, strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, 0.1, 0.9),
    lambda p: torch.optim.Adam(p, 0.1, amsgrad=True),
    lambda p: torch.optim.AdamW(p, 0.1),
    lambda p: torch.optim.RMSprop(p, 0.1, centered=True),
])  # fmt: skip
def test_optimizers(tmp_path, make):
    model = torch.nn.Linear(3, 2)
    optimizer = make(model.parameters())
    for _ in range(3):
        model(torch.rand(4, 3)).sum().backward()
        optimizer.step()
    save_state(optimizer.state_dict(), tmp_path / "a")
    other = make(torch.nn.Linear(3, 2).parameters())
    other.load_state_dict(load_state(tmp_path / "a"))
    ours, theirs = other.state_dict(), optimizer.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys() != set()
    for index, values in theirs["state"].items():
        for name, value in values.items():
            assert torch.equal(ours["state"][index][name], value)


def test_weights_have_the_names_of_the_model(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    model.append(torch.nn.Linear(2, 3))
    model[2].weight = model[0].weight  # tied
    save_weights(model, tmp_path / "w.safetensors")
    stored = load_file(tmp_path / "w.safetensors")
    assert stored.keys() == model.state_dict().keys()
    other = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(2, 3)
    )
    load_weights(other, tmp_path / "w.safetensors")
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)


KILLED = """
import os, sys, torch
from permutogeo.train import save_state

def die(*args, **options):
    os._exit(9)

os.replace = die
save_state({"epoch": 2, "w": torch.ones(1000)}, sys.argv[1])
"""


def test_killed_between(tmp_path):
    """The process ends when the new file is complete but has not taken its place."""
    path = tmp_path / "last.safetensors"
    save_state({"epoch": 1}, path)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert done.returncode == 9
    assert len(list(tmp_path.iterdir())) == 2, "the new file must have been written"
    assert load_state(path) == {"epoch": 1}
    save_state({"epoch": 3}, path)
    assert load_state(path) == {"epoch": 3}


def test_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "last.safetensors"
    save_state({"epoch": 1}, path)

    def full(file, content):
        with open(file, "wb") as opened:
            opened.write(content[: len(content) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        save_state({"epoch": 2}, path)
    assert load_state(path) == {"epoch": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_as_readable_as_others(tmp_path):
    save_state({"epoch": 1}, tmp_path / "state")
    save_weights(torch.nn.Linear(1, 1), tmp_path / "weights")
    (tmp_path / "other").touch()
    modes = {(tmp_path / name).stat().st_mode for name in ("state", "weights", "other")}
    assert len(modes) == 1


def test_errors(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(FileNotFoundError, match=r"a\.safetensors': Expected a file"):
        load_state(path)
    with pytest.raises(TypeError, match=r"got function in 'optimizer.0'"):
        save_state({"optimizer": [lambda: 0]}, path)
    assert not path.exists()
    save_file({"w": torch.ones(2)}, path)
    with pytest.raises(ValueError, match=r"Expected a checkpoint \(got weights alone"):
        load_state(path)
    with pytest.raises(ValueError, match=r"a\.safetensors': Expected the weights of Linear"):
        load_weights(torch.nn.Linear(2, 2), path)
    write_safetensors(path, {"w": torch.ones(2)}, {"permutogeo": {"tensor": "missing"}})
    with pytest.raises(ValueError, match="got a damaged one"):
        load_state(path)
    save_file({"w": torch.ones(2)}, path, {"permutogeo": json.dumps({"tensor": "w"})})
    with pytest.raises(ValueError, match="Expected a checksum"):
        load_state(path)
    save_state({"w": torch.ones(1000)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="Expected a safetensors file"):
        load_state(path)
    path.write_bytes(pickle.dumps({"epoch": 1}))
    with pytest.raises(ValueError, match="Expected a safetensors file"):
        load_state(path)
