"""Seeds, resuming, interrupts and errors of the training loop."""

import csv
import os
import signal
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from permutogeo.train import Checkpoints, Trainer, load_state, mse_step
from permutogeo.train.losses import predict


def vector(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def test_the_seed_decides_all(loader, make_model, same_rows):
    results = []
    for seed in (0, 0, 1):
        model = make_model()
        torch.rand(3)  # what was drawn before does not matter
        rows = Trainer(model, epochs=3, seed=seed).fit(loader, loader)
        results.append((vector(model), rows))
    assert torch.equal(results[0][0], results[1][0])
    same_rows(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[2][0])


def test_a_stopped_run_continues_with_another_stop(tmp_path, loader, make_model):
    options = {"epochs": 5, "checkpoints": Checkpoints(tmp_path, resume=True)}
    for after, stop in ((2, lambda row: row["epoch"] >= 2), (4, lambda row: row["epoch"] >= 4)):
        for _ in range(2):
            assert len(Trainer(make_model(), **options, stop=stop).fit(loader)) == after
    whole, parted = make_model(), make_model()
    rows = Trainer(parted, **options).fit(loader)
    other = Trainer(whole, epochs=5).fit(loader)
    assert [row["train_loss"] for row in rows] == [row["train_loss"] for row in other]
    assert torch.equal(vector(whole), vector(parted))


class Crash(Exception):
    pass


@pytest.mark.parametrize(("optimizer", "workers"), [("sgd", 0), ("adam", 0), ("sgd", 2)])
def test_resume_within_an_epoch(tmp_path, loader, make_model, optimizer, workers, same_rows):
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

    checkpoints = Checkpoints(tmp_path, resume=True, save_every=2)
    for crashes in (True, True, False):
        model = torch.nn.Sequential(*make_model())
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter) if steps else None
        trainer = Trainer(model, fragile, **options, checkpoints=checkpoints)
        if crashes:
            with pytest.raises(Crash):
                trainer.fit(loader, loader)
        else:
            same_rows(trainer.fit(loader, loader), rows)
    assert steps > 13
    assert torch.equal(vector(model), vector(expected))
    with open(tmp_path / "log.csv", newline="") as file:
        assert [float(row["val_loss"]) for row in csv.DictReader(file)] == [
            row["val_loss"] for row in rows
        ]


def test_interrupt_leaves_a_checkpoint(tmp_path, loader, make_model, same_rows):
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
    with pytest.raises(KeyboardInterrupt, match="1 epochs and 3 steps; set resume=True"):
        Trainer(make_model(), step, epochs=3, checkpoints=tmp_path).fit(loader)
    assert signal.getsignal(signal.SIGINT) is before
    assert (tmp_path / "curve.png").exists()
    progress = load_state(tmp_path / "last.safetensors")["progress"]
    assert (progress["epoch"], progress["epoch_steps"], progress["steps"]) == (1, 3, 9)
    model = make_model()
    same_rows(
        Trainer(model, epochs=3, checkpoints=Checkpoints(tmp_path, resume=True)).fit(loader), rows
    )
    assert torch.equal(vector(model), vector(expected))


def test_more_epochs_continue(tmp_path, loader, make_model, same_rows):
    model = make_model()
    rows = Trainer(model, epochs=4).fit(loader)
    Trainer(make_model(), epochs=2, checkpoints=tmp_path).fit(loader)
    other = make_model()
    same_rows(
        Trainer(other, epochs=4, checkpoints=Checkpoints(tmp_path, resume=True)).fit(loader), rows
    )
    assert torch.equal(vector(model), vector(other))


def test_divergence_is_an_error(loader, make_model):
    with pytest.raises(FloatingPointError, match=r"finite loss \(got .* in epoch 1, step \d+\)"):
        Trainer(make_model(), lr=1e12).fit(loader)


def test_batches_without_a_counted_target_change_nothing():
    model = torch.nn.Linear(2, 1)
    before = vector(model)
    batches = [(torch.rand(3, 2), torch.rand(3, 1)), (torch.rand(0, 2), torch.rand(0, 1))]

    def step(model, batch):
        prediction, target = predict(model, batch)
        return (prediction - target).sum() * 0, float(len(target))

    decaying = partial(torch.optim.SGD, lr=0.01, weight_decay=0.5)
    Trainer(model, step, optimizer=decaying, epochs=1).fit(batches[1:] + batches[:1])
    assert not torch.equal(vector(model), before)
    middle = vector(model)
    with pytest.raises(ValueError, match="no counted target"):
        Trainer(model, step, optimizer=decaying, epochs=1).fit(batches[1:])
    assert torch.equal(vector(model), middle)
