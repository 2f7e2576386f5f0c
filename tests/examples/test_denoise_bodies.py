"""Parts of the example on a few small bodies; test_examples.py runs the whole script."""

from argparse import Namespace

import pytest
import torch


@pytest.fixture(scope="module")
def example(examples):
    return examples("denoise_bodies")


@pytest.fixture(scope="module")
def args():
    return Namespace(
        model="procedural", resolution=40, train=4, val=2, test=3, search=4, noise=0.2,
        iterations=10, workers=0, seed=0,
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


def test_taps_alone_make_up_the_filter(example, parts):
    """The layer equals the weighted sum of the responses of its taps."""
    conv, body = example.make_filter(), parts["val"][0]
    torch.nn.init.normal_(conv.filter_weight)
    rows = example.responses(body, 0.06)
    assert rows.shape == (3 * body.num_nodes, 211)
    with torch.no_grad():
        expected = example.MM * conv(body.x, body.intrinsic / 0.06)
    found = (rows @ conv.filter_weight.detach().flatten()).reshape(-1, 3)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


def test_learned_filter_is_the_best(example, parts, monkeypatch):
    """Gradients through the layer vanish there: no filter has less error on these bodies."""
    monkeypatch.setattr(example, "PRIOR", 1e-3)
    sizes = []
    for conv in (example.make_filter(), example.learn(parts["train"], 0.06)):
        loss = 0.0
        for body in parts["train"]:
            out = conv(body.x, body.intrinsic / 0.06)
            loss = loss + ((out - body.y) * example.MM).square().sum()
        (gradient,) = torch.autograd.grad(loss, conv.filter_weight)
        sizes.append((float(gradient.norm()), float(loss.detach())))
    assert sizes[1][0] < 1e-3 * sizes[0][0] and sizes[1][1] < 0.999 * sizes[0][1]


def test_order_of_the_table(example, args, parts):
    methods, found = example.compare(parts, args)
    scores = {name: example.score(parts["test"], move) for name, move in methods.items()}
    rows = example.compared(scores)
    assert list(rows) == list(example.PAPER)
    rmse = [row["RMSE, mm"] for row in rows.values()]
    assert rmse[0] > 1.2 * rmse[1] and rmse[1] > 1.005 * rmse[2] and rmse[3] < 1.005 * rmse[2]
    assert rows["normal smoothing"]["better than above"] == 3
    assert rows["noisy"]["the paper"] == (5.774, 19.680)
    assert found["sigma"] == min(found["search"], key=found["search"].get)
    tried = found["validation_learned"]
    assert found["learned_sigma"] == min(tried, key=tried.get) and len(tried) == 3


def test_missing_model(example, args, monkeypatch):
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"PERMUTOGEO_DATA.*--model procedural"):
        example.load("val", Namespace(**{**vars(args), "model": "makehuman"}))
