import pytest
import torch

from permutogeo.train import Mean, Trainer


def test_losses_of_uneven_batches_are_weighed_by_count():
    x, y = torch.rand(10, 2), torch.rand(10, 1)
    model = torch.nn.Linear(2, 1)
    trainer = Trainer(model, epochs=1)
    parts = [(x[:1], y[:1]), (x[1:], y[1:])]
    expected = float(torch.nn.functional.mse_loss(model(x), y).detach())
    assert trainer.evaluate(parts)["loss"] == pytest.approx(expected, rel=1e-6)


def test_metric_is_summed_over_batches():
    x, y = torch.rand(10, 2), torch.rand(10, 1)

    def measure(model, batch):
        assert not model.training and not torch.is_grad_enabled()
        return {"error": ((model(batch[0]) - batch[1]).abs().sum(), len(batch[0]))}

    model = torch.nn.Linear(2, 1)
    got = Trainer(model, metric=Mean(measure)).evaluate([(x[:3], y[:3]), (x[3:], y[3:])])
    assert got["error"] == pytest.approx(float((model(x) - y).detach().abs().mean()), rel=1e-6)
    assert model.training


def test_no_batches():
    with pytest.raises(ValueError, match="batches to measure"):
        Trainer(torch.nn.Linear(1, 1)).evaluate([])
