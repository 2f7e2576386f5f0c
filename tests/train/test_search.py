import csv
import math
from functools import partial

import pytest
import torch

from permutogeo.datasets import MeshFolder
from permutogeo.train import Trainer, grid_search, hold_out, scale_search


def test_grid_picks_the_best():
    tried = []

    def objective(a, b):
        tried.append((a, b))
        return (a - 2) ** 2 + (b - 0.3) ** 2

    found = grid_search(objective, {"a": [1, 2, 3], "b": [0.1, 0.4]})
    assert found.best == {"a": 2, "b": 0.4}
    assert found.score == pytest.approx(0.01)
    assert len(tried) == len(found.trials) == 6
    worst = grid_search(objective, {"a": [1, 2, 3], "b": [0.1, 0.4]}, maximize=True)
    assert worst.score == max(trial["score"] for trial in found.trials)


def test_learning_rate_search():
    """Of a quadratic: too small is slow, too large diverges and counts as the worst."""
    x = torch.linspace(-1, 1, 16).unsqueeze(1)
    batches = [(x, 2 * x)]

    def objective(lr):
        torch.manual_seed(0)
        optimizer = partial(torch.optim.SGD, lr=lr, momentum=0.9)
        trainer = Trainer(torch.nn.Linear(1, 1), "mse", optimizer, epochs=20)
        return trainer.fit(batches, batches)[-1]["val_loss"]

    found = grid_search(objective, {"lr": [1e-4, 0.1, 1e20]})
    assert found.best == {"lr": 0.1}
    assert math.isnan(found.trials[2]["score"])


def test_scale_search_finds_a_minimum():
    count = 0

    def objective(pos, color):
        nonlocal count
        count += 1
        return math.log(pos / 0.05) ** 2 + math.log(color / 3.0) ** 2

    found = scale_search(objective, {"pos": 0.13, "color": 0.17}, levels=4)
    assert abs(math.log(found.best["pos"] / 0.05)) < math.log(2) / 8
    assert abs(math.log(found.best["color"] / 3.0)) < math.log(2) / 8
    assert count == len(found.trials) < 60, "no trial is made twice"
    endless = scale_search(lambda a: a, {"a": 1.0}, max_trials=20)
    assert len(endless.trials) <= 22


def test_only_the_first_process_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    grid_search(lambda lr: lr, {"lr": [0.1]}, log=tmp_path / "trials.csv")
    assert list(tmp_path.iterdir()) == []


def test_trials_are_written_and_not_made_again(tmp_path):
    path = tmp_path / "trials.csv"
    calls = []

    def objective(lr):
        calls.append(lr)
        if lr > 0.5:
            raise KeyboardInterrupt
        return 0.1 + lr

    with pytest.raises(KeyboardInterrupt):
        grid_search(objective, {"lr": [0.1, 0.3, 0.7]}, log=path)
    with open(path, newline="") as file:
        assert [float(row["score"]) for row in csv.DictReader(file)] == [0.2, 0.4]
    found = grid_search(objective, {"lr": [0.1, 0.3, 0.4]}, log=path)
    assert calls == [0.1, 0.3, 0.7, 0.4]
    assert found.best == {"lr": 0.1} and len(found.trials) == 3


def test_errors():
    with pytest.raises(ValueError, match="values to try"):
        grid_search(lambda: 0.0, {})
    with pytest.raises(ValueError, match=r"finite score \(got none in 2 trials"):
        grid_search(lambda a: math.nan, {"a": [1, 2]})
    with pytest.raises(ValueError, match="positive settings"):
        scale_search(lambda a: a, {"a": 0.0})
    with pytest.raises(ValueError, match=r"both parts of 3 elements non-empty \(got 0.01\)"):
        hold_out([1, 2, 3], 0.01)


def test_hold_out(tmp_path):
    learn, check = hold_out(list(range(50)), 0.2, seed=4)
    assert len(check) == 10 and sorted([*learn, *check]) == list(range(50))
    again = hold_out(list(range(50)), 0.2, seed=4)
    assert list(again[1]) == list(check)
    assert list(hold_out(list(range(50)), 0.2, seed=5)[1]) != list(check)
    assert list(check) != list(range(10))


def test_hold_out_of_a_dataset_is_one(tmp_path):
    for i in range(5):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{i}.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    learn, check = hold_out(MeshFolder(tmp_path, 4), 0.4)
    assert isinstance(check, MeshFolder) and (len(learn), len(check)) == (3, 2)
    assert not {data.path for data in learn} & {data.path for data in check}
