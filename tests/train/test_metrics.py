import numpy as np
import pytest
import torch
from torch.nn import functional

from permutogeo.train import Confusion, Mean, confusion, scores


def test_scores_against_counting():
    rng = np.random.default_rng(1)
    target = rng.choice([0, 1, 3, 255], 300, p=[0.5, 0.2, 0.2, 0.1])  # class 2 does not occur
    label = np.where(rng.random(300) < 0.6, target % 4, rng.integers(0, 4, 300))
    kept = target != 255
    ious = [
        np.sum(kept & (target == k) & (label == k)) / np.sum(kept & ((target == k) | (label == k)))
        for k in (0, 1, 3)
    ]
    per_class = [np.mean(label[target == k] == k) for k in (0, 1, 3)]
    table = confusion(torch.from_numpy(label), torch.from_numpy(target), 4, ignore=255)
    got = scores(table)
    assert got["mean_iou"] == pytest.approx(np.mean(ious))
    assert got["class_accuracy"] == pytest.approx(np.mean(per_class))
    assert got["accuracy"] == pytest.approx(np.mean((label == target)[kept]))
    logits = functional.one_hot(torch.from_numpy(label), 4).float()
    metric = Confusion(4, 255, predict=lambda model, batch: batch)
    parts = [metric.measure(None, (logits[i : i + 70], torch.from_numpy(target[i : i + 70])))
             for i in range(0, 300, 70)]  # fmt: skip
    assert metric.summary({"confusion": sum(part["confusion"] for part in parts)}) == got


def test_means_are_sums_over_counts():
    metric = Mean(lambda model, batch: {"error": (batch.abs().sum(), len(batch))})
    parts = [metric.measure(None, torch.tensor(part)) for part in ([1.0, -2.0], [6.0])]
    total = {"error": parts[0]["error"] + parts[1]["error"]}
    assert total["error"].dtype == torch.float64
    assert metric.summary(total) == {"error": 3.0}


def test_errors():
    with pytest.raises(ValueError, match=r"targets in 0 to 1 \(got 0 to 7\)"):
        confusion(torch.tensor([0, 1]), torch.tensor([0, 7]), 2)
    with pytest.raises(ValueError, match="Expected 2 labels"):
        confusion(torch.tensor([0]), torch.tensor([0, 1]), 2)
