import csv
import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader as PointLoader

from permutogeo.models import BilateralNet
from permutogeo.train import Confusion, Mean, Trainer, drops, load_state, load_weights, mse_step
from permutogeo.train.losses import predict


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def same(rows, others):
    """Rows are alike in all but the time they took."""
    strip = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in r] for r in (rows, others)
    ]
    assert strip[0] == strip[1]


# What it computes


@pytest.mark.parametrize("decay", [None, 0.1])
def test_sgd_matches_its_formula(decay):
    """Against the update of the textbook, v = 0.9 v + g + decay w and w = w - lr v, by hand."""
    x, y = torch.rand(24, 3, dtype=torch.float64), torch.rand(24, 1, dtype=torch.float64)
    batches = [(x[i : i + 8], y[i : i + 8]) for i in (0, 8, 16)]
    model = torch.nn.Linear(3, 1, bias=False).double()
    w = model.weight.detach().numpy().copy().ravel()
    trainer = Trainer(model, lr=0.1, epochs=4, weight_decay=decay, schedule=drops(0.5, factor=0.5))
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


def test_losses_of_uneven_batches_are_weighed_by_count():
    x, y = torch.rand(10, 2), torch.rand(10, 1)
    model = torch.nn.Linear(2, 1)
    trainer = Trainer(model, epochs=1)
    parts = [(x[:1], y[:1]), (x[1:], y[1:])]
    expected = float(torch.nn.functional.mse_loss(model(x), y).detach())
    assert trainer.evaluate(parts)["loss"] == pytest.approx(expected, rel=1e-6)


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


def test_metric_is_summed_over_batches():
    x, y = torch.rand(10, 2), torch.rand(10, 1)

    def measure(model, batch):
        assert not model.training and not torch.is_grad_enabled()
        return {"error": ((model(batch[0]) - batch[1]).abs().sum(), len(batch[0]))}

    model = torch.nn.Linear(2, 1)
    got = Trainer(model, metric=Mean(measure)).evaluate([(x[:3], y[:3]), (x[3:], y[3:])])
    assert got["error"] == pytest.approx(float((model(x) - y).detach().abs().mean()), rel=1e-6)
    assert model.training


# Seeds


def test_the_seed_decides_all(loader, make_model):
    results = []
    for seed in (0, 0, 1):
        model = make_model()
        torch.rand(3)  # what was drawn before does not matter
        rows = Trainer(model, epochs=3, seed=seed).fit(loader, loader)
        results.append((weights(model), rows))
    assert torch.equal(results[0][0], results[1][0])
    same(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[2][0])


def test_every_epoch_has_an_order_of_its_own():
    def orders(seed, epochs=3):
        seen = []

        def step(model, batch):
            seen.extend(batch[0].reshape(-1).tolist())
            return model(batch[0]).sum(), len(batch[0])

        loader = DataLoader(TensorDataset(torch.arange(20.0).view(-1, 1)), 3, shuffle=True,
                            generator=torch.Generator())  # fmt: skip
        Trainer(torch.nn.Linear(1, 1), step, lr=1e-6, epochs=epochs, seed=seed).fit(loader)
        return [seen[i : i + 20] for i in range(0, 20 * epochs, 20)]

    first = orders(0)
    assert all(sorted(order) == list(range(20)) for order in first)
    assert len({tuple(order) for order in first}) == 3
    assert orders(0) == first and orders(0, 2) == first[:2]
    assert orders(1) != first


def test_the_random_numbers_of_the_caller_stay(loader, make_model):
    trainer = Trainer(make_model(), epochs=1)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    trainer.fit(loader)
    assert torch.equal(torch.rand(2), expected)


# Files, and continuing


def test_files(tmp_path, loader, make_model):
    rows = Trainer(make_model(), epochs=3, folder=tmp_path / "run").fit(loader, loader)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["best.safetensors", "curve.png", "last.safetensors", "log.csv"]
    with open(tmp_path / "run" / "log.csv", newline="") as file:
        table = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert table == rows
    assert list(rows[0]) == ["epoch", "steps", "seconds", "lr", "train_loss", "val_loss"]
    with Image.open(tmp_path / "run" / "curve.png") as picture:
        assert min(picture.size) > 100 and np.asarray(picture.convert("L")).std() > 5


def test_best_weights(tmp_path, loader, make_model):
    """The best epoch is the second, by a figure that rises and falls."""
    seen = []

    def measure(model, batch):
        return {"height": (-abs(len(seen) - 1.0), 1)}

    model = make_model()
    trainer = Trainer(model, epochs=4, folder=tmp_path, metric=Mean(measure), monitor="height",
                      maximize=True, report=lambda row: seen.append(weights(model)))  # fmt: skip
    rows = trainer.fit(loader, [next(iter(loader))])
    assert trainer.best(rows)["epoch"] == 2
    trainer.load_best()
    assert torch.equal(weights(model), seen[1])
    other = make_model()
    load_weights(other, tmp_path / "best.safetensors")
    assert torch.equal(weights(other), seen[1])


def test_a_run_that_chose_to_end_has_ended_until_it_chooses_otherwise(tmp_path, loader, make_model):
    options = {"epochs": 5, "folder": tmp_path, "resume": True}
    for after, stop in ((2, lambda row: row["epoch"] >= 2), (4, lambda row: row["epoch"] >= 4)):
        for _ in range(2):
            assert len(Trainer(make_model(), **options, stop=stop).fit(loader)) == after
    whole, parted = make_model(), make_model()
    rows = Trainer(parted, **options).fit(loader)
    other = Trainer(whole, epochs=5).fit(loader)
    assert [row["train_loss"] for row in rows] == [row["train_loss"] for row in other]
    assert torch.equal(weights(whole), weights(parted))


class Crash(Exception):
    pass


@pytest.mark.parametrize(("optimizer", "workers"), [("sgd", 0), ("adam", 0), ("sgd", 2)])
def test_resume_within_an_epoch(tmp_path, loader, make_model, optimizer, workers):
    """A run that died twice gives the bits of one that did not, with all that is random in it."""
    loader = DataLoader(loader.dataset, 4, shuffle=True, num_workers=workers)
    options = {"optimizer": optimizer, "lr": 0.02, "schedule": "cosine", "epochs": 3}
    expected = make_model()
    rows = Trainer(expected, **options).fit(loader, loader)
    steps = 0

    def fragile(model, batch):
        nonlocal steps
        steps += 1
        if steps in (5, 13):
            raise Crash
        return mse_step()(model, batch)

    for crashes in (True, True, False):
        model = torch.nn.Sequential(*make_model())
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter) if steps else None
        trainer = Trainer(model, fragile, **options, folder=tmp_path, resume=True, save_every=2)
        if crashes:
            with pytest.raises(Crash):
                trainer.fit(loader, loader)
        else:
            same(trainer.fit(loader, loader), rows)
    assert steps > 13
    assert torch.equal(weights(model), weights(expected))
    with open(tmp_path / "log.csv", newline="") as file:
        assert [float(row["val_loss"]) for row in csv.DictReader(file)] == [
            row["val_loss"] for row in rows
        ]


def test_interrupt_leaves_a_checkpoint(tmp_path, loader, make_model):
    expected = make_model()
    rows = Trainer(expected, epochs=3).fit(loader)
    steps = 0

    def step(model, batch):
        nonlocal steps
        steps += 1
        if steps == 9:  # of 6 in an epoch
            os.kill(os.getpid(), signal.SIGINT)
        return mse_step()(model, batch)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="1 epochs and 3 steps; give resume=True"):
        Trainer(make_model(), step, epochs=3, folder=tmp_path).fit(loader)
    assert signal.getsignal(signal.SIGINT) is before
    assert (tmp_path / "curve.png").exists()
    progress = load_state(tmp_path / "last.safetensors")["progress"]
    assert (progress["epoch"], progress["done"], progress["steps"]) == (1, 3, 9)
    model = make_model()
    same(Trainer(model, epochs=3, folder=tmp_path, resume=True).fit(loader), rows)
    assert torch.equal(weights(model), weights(expected))


def test_without_resume_a_run_begins_anew(tmp_path, loader, make_model):
    first = Trainer(make_model(), epochs=2, folder=tmp_path).fit(loader)
    again = make_model()
    rows = Trainer(again, epochs=2, folder=tmp_path).fit(loader)
    same(rows, first)

    def fail(model, batch):
        raise Crash

    with pytest.raises(Crash):
        Trainer(make_model(), fail, epochs=2, folder=tmp_path).fit(loader)
    # Nothing is left that a later run could take for its own.
    assert list(tmp_path.iterdir()) == []


def test_more_epochs_continue(tmp_path, loader, make_model):
    model = make_model()
    rows = Trainer(model, epochs=4).fit(loader)
    Trainer(make_model(), epochs=2, folder=tmp_path).fit(loader)
    other = make_model()
    same(Trainer(other, epochs=4, folder=tmp_path, resume=True).fit(loader), rows)
    assert torch.equal(weights(model), weights(other))


# Errors


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
    with pytest.raises(ValueError, match=r"sizes are known \('weight'"):
        Trainer(torch.nn.LazyLinear(2))
    with pytest.raises(ValueError, match="something to learn"):
        Trainer(torch.nn.ReLU())
    with pytest.raises(ValueError, match=r"'monitor' among epoch, .* \(got 'iou'\)"):
        Trainer(model, epochs=1, monitor="iou").fit(loader)
    with pytest.raises(ValueError, match="Expected a 'folder'"):
        Trainer(model).load_best()
    with pytest.raises(TypeError, match=r"batch \(input, target\).*got dict"):
        Trainer(model).fit([{"a": 1}])
    with pytest.raises(TypeError, match="scalar tensor and a count"):
        Trainer(model, lambda model, batch: (model(batch[0]), 1)).fit(loader)
    with pytest.raises(ValueError, match="something to learn from"):
        Trainer(model).fit([])
    with pytest.raises(ValueError, match="batches to measure"):
        Trainer(model).evaluate([])


def test_divergence_is_an_error(loader, make_model):
    with pytest.raises(FloatingPointError, match=r"finite loss \(got .* in epoch 1, step \d+\)"):
        Trainer(make_model(), lr=1e12).fit(loader)


def test_another_run_is_not_continued(tmp_path, loader, make_model):
    Trainer(make_model(), epochs=1, folder=tmp_path, seed=3).fit(loader)
    with pytest.raises(ValueError, match=r"last.safetensors': Expected 'seed' of 3.*got 4"):
        Trainer(make_model(), folder=tmp_path, seed=4, resume=True).fit(loader)
    with pytest.raises(ValueError, match="Expected the weights of Linear"):
        Trainer(torch.nn.Linear(3, 1), folder=tmp_path, seed=3, resume=True).fit(loader)
    with pytest.raises(ValueError, match="Expected 'optimizer' of 'SGD'"):
        Trainer(make_model(), optimizer="adam", folder=tmp_path, seed=3, resume=True).fit(loader)


def test_batches_without_a_counted_target_change_nothing():
    model = torch.nn.Linear(2, 1)
    before = weights(model)
    batches = [(torch.rand(3, 2), torch.rand(3, 1)), (torch.rand(0, 2), torch.rand(0, 1))]

    def step(model, batch):
        prediction, target = predict(model, batch)
        return (prediction - target).sum() * 0, float(len(target))

    Trainer(model, step, weight_decay=0.5, epochs=1).fit(batches[1:] + batches[:1])
    assert not torch.equal(weights(model), before)
    middle = weights(model)
    with pytest.raises(ValueError, match="no counted target"):
        Trainer(model, step, weight_decay=0.5, epochs=1).fit(batches[1:])
    assert torch.equal(weights(model), middle)


def test_no_noise(capfd, loader, make_model):
    Trainer(make_model(), epochs=1).fit(loader, loader)
    assert capfd.readouterr() == ("", "")
    Trainer(make_model(), epochs=1, progress=True, report=print).fit(loader)
    out, err = capfd.readouterr()
    assert out.startswith("{'epoch': 1") and "epoch 1/1" in err
