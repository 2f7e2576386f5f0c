"""The networks that classify sparse drawings, and pretrained models."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from permutogeo import weights
from permutogeo.models import BilateralNet, BNNDeepCNet, BNNLeNet, LatticeCNet

DOUBLE = torch.float64


@pytest.mark.parametrize(
    ("model", "channels"),
    [
        (BilateralNet(3, (6, 4), 2, dim=2, plain=True, init="kaiming"), 3),
        (BNNLeNet(1, 10, extent=9.0, side=28, radius=2), 1),
        (BNNDeepCNet(1, 5, extent=9.0, depth=2, hidden_channels=4, normalize=None), 1),
        (LatticeCNet(1, 4, 5, dim=2, extent=9.0, depth=2, read=2), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pretrained_by_path(model, channels, tmp_path):
    path, kind = tmp_path / "own.safetensors", type(model)
    model.eval().save_pretrained(path)
    x, feature = torch.rand(30, channels), 9 * torch.rand(30, 2)
    again = kind.from_pretrained(path)
    assert str(again) == str(model) and not again.training
    assert torch.equal(again(x, feature), model(x, feature))
    save_file({"a": torch.zeros(1)}, path, {weights.SETTINGS: json.dumps(model.settings)})
    with pytest.raises(ValueError, match=f"Expected the weights of a {kind.__name__}"):
        kind.from_pretrained(path)


def test_pretrained_without_a_name():
    assert str(BilateralNet.from_pretrained()) == str(BilateralNet.from_pretrained("tiles"))


NETS = [
    (lambda: BNNLeNet(1, 5, extent=20.0), "BNNLeNet(1, 5, extent=20.0, radius=1)"),
    (
        lambda: BNNLeNet(1, 5, extent=20.0, side=28, radius=2),
        "BNNLeNet(1, 5, extent=20.0, radius=2)",
    ),
    (
        lambda: BNNDeepCNet(1, 5, extent=20.0, depth=2, hidden_channels=4),
        "BNNDeepCNet(1, 5, extent=20.0, radius=1)",
    ),
    (
        lambda: LatticeCNet(1, 6, 5, dim=2, extent=20.0, depth=3),
        "LatticeCNet(1, 6, 5, dim=2, num_layers=1, extent=20.0, depth=3, read=3)",
    ),
]
each_net = pytest.mark.parametrize(
    "make", [m for m, _ in NETS], ids=["lenet7", "lenet", "deepcnet", "cnet"]
)


@pytest.mark.parametrize(("make", "shown"), NETS)
def test_str(make, shown):
    assert str(make()) == shown


@each_net
def test_graphs_do_not_mix(make, drawings):
    model = make().double().eval()
    x, feature, batch = drawings()
    together = model(x, feature, batch)
    assert together.shape == (3, 5)
    alone = [model(x[batch == i], feature[batch == i]) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-10, atol=1e-12)


@each_net
def test_order_of_points_is_nothing(make, drawings):
    model = make().double().eval()
    x, feature, batch = drawings()
    order = torch.randperm(len(x))
    again = model(x[order], feature[order], batch[order])
    torch.testing.assert_close(again, model(x, feature, batch), rtol=1e-10, atol=1e-12)


@each_net
def test_place_matters_and_all_learn(make, drawings):
    model = make().double()
    x, feature, batch = drawings()
    out = model.eval()(x, feature, batch)
    assert not torch.allclose(model(x, feature.flip(1), batch), out)
    functional.cross_entropy(model.train()(x, feature, batch), torch.arange(3)).backward()
    assert all(p.grad is not None and float(p.grad.abs().max()) > 0 for p in model.parameters())
