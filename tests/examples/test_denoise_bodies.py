"""The pieces of the example on few small bodies; tests/test_examples.py runs it as a whole."""

import importlib.util
from argparse import Namespace
from pathlib import Path

import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "denoise_bodies.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("denoise_bodies", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def args():
    return Namespace(
        model="procedural", resolution=40, train=4, val=2, test=3, search=4, noise=0.2,
        iterations=10, epochs=2, batch_size=2, lr=0.02, workers=0, seed=0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def parts(example, args):
    return {part: example.load(part, args) for part in example.PARTS}


def test_bodies(example, args, parts):
    """No body is in two parts, each has noise of its own, and all come back the same."""
    bodies = [body for part in parts.values() for body in part]
    assert len({body.num_nodes for body in bodies}) > 1
    assert len({float(body.clean_pos.sum()) for body in bodies}) == len(bodies) == 9
    assert len({float(body.x[0].norm()) for body in bodies}) == 9
    for body in bodies:
        torch.testing.assert_close(body.pos + body.x, body.noisy_pos)
        torch.testing.assert_close(body.pos + body.y, body.clean_pos)
        assert body.intrinsic.shape == (body.num_nodes, 4)
    again = example.load("val", Namespace(**{**vars(args), "workers": 1}))
    for body, other in zip(parts["val"], again, strict=True):
        assert torch.equal(body.x, other.x) and torch.equal(body.intrinsic, other.intrinsic)


def test_order_of_the_table(example, args, parts, capsys):
    torch.manual_seed(0)
    scores, found = example.compare(parts, args)
    results = example.report(scores)
    assert list(results) == list(example.PAPER)
    rmse = [result["rmse_mm"] for result in results.values()]
    assert rmse[0] > 1.2 * rmse[1] and rmse[1] > 1.005 * rmse[2] and rmse[3] < 1.005 * rmse[2]
    assert results["normal smoothing"]["better_than_above"] == 3
    # The filter of the end is better on what it learned from than the Gaussian it started as.
    losses = [epoch["loss"] for epoch in found["epochs"] if epoch["sigma"] == found["sigma"]]
    assert losses[-1] < losses[0]
    assert found["sigma"] == min(found["search"], key=found["search"].get)
    table = capsys.readouterr().out
    assert "5.774" in table and f"{rmse[3]:.3f}" in table


def test_missing_model(example, args, monkeypatch):
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"PERMUTOGEO_DATA.*--model procedural"):
        example.load("val", Namespace(**{**vars(args), "model": "makehuman"}))
