from functools import partial

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader as PointLoader

from permutogeo.models import BilateralNet
from permutogeo.train import Checkpoints, Confusion, Mean, Trainer, drops, load_weights


def vector(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("decay", [None, 0.1])
def test_sgd_matches_its_formula(decay):
    """Against the update of the textbook, v = 0.9 v + g + decay w and w = w - lr v, by hand."""
    x, y = torch.rand(24, 3, dtype=torch.float64), torch.rand(24, 1, dtype=torch.float64)
    batches = [(x[i : i + 8], y[i : i + 8]) for i in (0, 8, 16)]
    model = torch.nn.Linear(3, 1, bias=False).double()
    w = model.weight.detach().numpy().copy().ravel()
    optimizer = "sgd"
    if decay is not None:
        optimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=decay)
    schedule = drops(0.5, factor=0.5)
    trainer = Trainer(model, "mse", optimizer, lr=0.1, epochs=4, schedule=schedule)
    rows = trainer.fit(batches)
    v, losses = np.zeros(3), []
    for epoch in range(4):
        total = 0.0
        for bx, by in batches:
            difference = bx.numpy() @ w - by.numpy().ravel()
            total += (difference**2).sum()
            gradient = 2 * difference @ bx.numpy() / len(bx)
            v = 0.9 * v + gradient + (5e-4 if decay is None else decay) * w
            w = w - 0.1 * (0.5 if epoch >= 2 else 1.0) * v
        losses.append(total / 24)
    np.testing.assert_allclose(model.weight.detach().numpy().ravel(), w, rtol=1e-12)
    np.testing.assert_allclose([row["train_loss"] for row in rows], losses, rtol=1e-12)
    assert [row["steps"] for row in rows] == [3, 6, 9, 12]
    assert [row["lr"] for row in rows] == [0.1, 0.1, 0.05, 0.05]


def test_adam_matches_its_formula():
    """Against the update of Kingma and Ba (2015), by hand, along half a wave."""
    x, y = torch.rand(12, 3, dtype=torch.float64), torch.rand(12, 1, dtype=torch.float64)
    model = torch.nn.Linear(3, 1, bias=False).double()
    w = model.weight.detach().numpy().copy().ravel()
    Trainer(model, "mse", "adam", lr=0.1, epochs=5, schedule="cosine").fit([(x, y)])
    mean, square = np.zeros(3), np.zeros(3)
    for step in range(1, 6):
        gradient = 2 * (x.numpy() @ w - y.numpy().ravel()) @ x.numpy() / 12
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        lr = 0.1 * (1 + np.cos(np.pi * (step - 1) / 5)) / 2
        scale = np.sqrt(square / (1 - 0.999**step)) + 1e-8
        w = w - lr * mean / (1 - 0.9**step) / scale
    np.testing.assert_allclose(model.weight.detach().numpy().ravel(), w, rtol=1e-10)


def test_points_and_classes():
    """A model of this library on PyG's batches, by the loss's name."""
    generator = torch.Generator().manual_seed(0)
    clouds = []
    for count in (30, 50, 40):
        feature = torch.rand(count, 2, generator=generator) * 4
        clouds.append(Data(x=feature, feature=feature, y=(feature[:, 0] > 2).long()))
    loader = PointLoader(clouds, batch_size=2, shuffle=True)
    model = BilateralNet(2, 8, 2, dim=2, num_layers=2)
    trainer = Trainer(model, "logistic", "adam", lr=0.02, epochs=15, metric=Confusion(2))
    before = trainer.evaluate(loader)
    rows = trainer.fit(loader, loader)
    assert rows[-1]["val_loss"] < 0.5 * before["loss"]
    assert rows[-1]["accuracy"] > 0.9 and rows[-1]["mean_iou"] > 0.8


def test_best_weights(tmp_path, loader, make_model):
    """The best epoch is the second, by a figure that rises and falls."""
    seen = []

    def measure(model, batch):
        return {"height": (-abs(len(seen) - 1.0), 1)}

    model = make_model()
    checkpoints = Checkpoints(tmp_path, monitor="height", maximize=True)
    trainer = Trainer(model, epochs=4, metric=Mean(measure), checkpoints=checkpoints,
                      report=lambda row: seen.append(vector(model)))  # fmt: skip
    rows = trainer.fit(loader, [next(iter(loader))])
    assert trainer.best(rows)["epoch"] == 2
    trainer.load_best()
    assert torch.equal(vector(model), seen[1])
    other = make_model()
    load_weights(other, tmp_path / "best.safetensors")
    assert torch.equal(vector(other), seen[1])


def test_errors(tmp_path, loader, make_model):
    model = make_model()
    for options, message in [
        ({"loss": "hinge"}, "Expected 'loss' in mse, logistic, or a function .got 'hinge'"),
        ({"optimizer": "lbfgs"}, "Expected 'optimizer' in sgd, adam"),
        ({"schedule": "warm"}, "Expected 'schedule' in constant, cosine"),
        ({"lr": 0.0}, "Expected 'lr' above 0"),
        ({"epochs": 0}, "'epochs' >= 1 .got 0"),
        ({"seed": -1}, "'seed' >= 0"),
        ({"seed": 1.5}, "an integer 'seed'"),
    ]:
        with pytest.raises(ValueError, match=message):
            Trainer(model, **options)
    with pytest.raises(ValueError, match=r"lazy parameters \(got 'weight'"):
        Trainer(torch.nn.LazyLinear(2))
    with pytest.raises(ValueError, match="trainable parameters"):
        Trainer(torch.nn.ReLU())
    with pytest.raises(ValueError, match=r"'monitor' among epoch, .* \(got 'iou'\)"):
        Trainer(model, epochs=1, checkpoints=Checkpoints(monitor="iou")).fit(loader)
    with pytest.raises(ValueError, match="'checkpoints' with a folder"):
        Trainer(model).load_best()
    with pytest.raises(TypeError, match=r"batch \(input, target\).*got dict"):
        Trainer(model).fit([{"a": 1}])
    with pytest.raises(TypeError, match="scalar tensor and a count"):
        Trainer(model, lambda model, batch: (model(batch[0]), 1)).fit(loader)
    with pytest.raises(ValueError, match="something to learn from"):
        Trainer(model).fit([])
