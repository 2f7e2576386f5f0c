import numpy as np
import pytest
import torch
from torch.nn import functional

from permutogeo.train import logistic, logistic_step, mse, mse_step


def log_softmax(logits):
    logits = logits - logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def test_mse():
    a, b = torch.rand(5, 3, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64)
    total, count = mse(a, b)
    assert count == 15
    np.testing.assert_allclose(total, ((a.numpy() - b.numpy()) ** 2).sum())
    with pytest.raises(ValueError, match=r"target of shape \[5, 3\] \(got \[5\]\)"):
        mse(a, b[:, 0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [None, 255])
def test_logistic_matches_its_formula(weighted, ignore):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((50, 4)) * 3
    target = rng.integers(0, 4, 50)
    weight = rng.random(4) + 0.1 if weighted else np.ones(4)
    expected = -(log_softmax(logits)[np.arange(50), target] * weight[target])
    counts = weight[target]
    if ignore is not None:
        void = rng.random(50) < 0.3
        target[void] = ignore
        expected, counts = expected[~void], counts[~void]
    total, count = logistic(
        torch.from_numpy(logits),
        torch.from_numpy(target),
        torch.from_numpy(weight) if weighted else None,
        ignore,
    )
    np.testing.assert_allclose(float(total), expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(float(count), counts.sum(), rtol=1e-12)


def test_logistic_on_images_and_binary():
    logits, target = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    total, count = logistic(logits, target)
    torch.testing.assert_close(total / count, functional.cross_entropy(logits, target).double(),
                               check_dtype=False)  # fmt: skip
    total, count = logistic(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
    assert float(total) == pytest.approx(np.log1p(np.exp(-2)) + np.log1p(np.exp(-1)))
    assert count == 2


def test_all_ignored_is_zero_of_zero():
    total, count = logistic(torch.randn(3, 2), torch.full((3,), 255), ignore=255)
    assert float(total) == 0 and float(count) == 0


def test_errors():
    logits = torch.randn(3, 2)
    with pytest.raises(ValueError, match=r"classes below 2 \(got 255\); pass 'ignore'"):
        logistic(logits, torch.tensor([0, 255, 1]))
    with pytest.raises(ValueError, match=r"classes below 2 \(got -1\)"):
        logistic(logits, torch.tensor([0, -1, 1]), ignore=255)
    with pytest.raises(ValueError, match=r"got \[3, 2\] and \[4\]"):
        logistic(logits, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"'class_weight' of shape \[2\] \(got \[3\]\)"):
        logistic(logits, torch.zeros(3, dtype=torch.int64), torch.ones(3))
    with pytest.raises(ValueError, match="binary"):
        logistic(logits, torch.zeros(3))


def test_steps_take_what_predict_gives():
    model = torch.nn.Linear(2, 3)
    x, y = torch.rand(5, 2), torch.randint(3, (5,))

    def predict(model, batch):
        return model(batch["points"]), batch["label"]

    total, count = logistic_step(predict=predict)(model, {"points": x, "label": y})
    torch.testing.assert_close(total / count, functional.cross_entropy(model(x), y),
                               check_dtype=False)  # fmt: skip
    total, count = mse_step()(model, (x, torch.zeros(5, 3)))
    torch.testing.assert_close(total / count, model(x).square().mean())
