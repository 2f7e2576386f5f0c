"""Gradients of the CRF: through the steps, at the fixed point, and in training."""

import pytest
import torch

from permutogeo.nn import DenseCRF, GaussianKernel, LearnedKernel

DOUBLE = torch.float64


@pytest.mark.parametrize("backward", ["unroll", "checkpoint"])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_gradcheck(backward, exclude_self):
    """Unaries, features, bandwidths, weights, filter and compatibility."""
    unary = torch.randn(7, 3, dtype=DOUBLE, requires_grad=True)
    features = [torch.rand(7, d, dtype=DOUBLE).mul(2).requires_grad_() for d in (1, 2)]
    kernels = [
        GaussianKernel(1, 0.7, 0.8, learn_sigma=True, learn_weight=True),
        LearnedKernel(2, weight=0.6, learn_sigma=True, learn_weight=True),
    ]
    crf = DenseCRF(
        3, kernels, "full", 2, learn_compatibility=True, exclude_self=exclude_self,
        backward=backward,
    ).double()  # fmt: skip
    names = [name for name, _ in crf.named_parameters()]

    def call(unary, first, second, *parameters):
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(crf, values, (unary, [first, second]))

    assert len(names) == 7
    assert torch.autograd.gradcheck(call, (unary, *features, *crf.parameters()))


def test_training_lowers_the_loss(points):
    """Labels in stripes, unaries that are mostly noise."""
    feature = torch.rand(400, 2) * 8
    y = (feature[:, 0] / 2).long() % 3
    unary = torch.nn.functional.one_hot(y, 3) + 1.5 * torch.randn(400, 3)
    crf = DenseCRF(3, [LearnedKernel(2, learn_weight=True)], "full", 3, learn_compatibility=True)
    optimizer = torch.optim.Adam(crf.parameters(), 0.05)
    losses = []
    for _ in range(15):
        loss = torch.nn.functional.nll_loss(crf(unary, [feature]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    accuracy = (crf.labels(unary, [feature]) == y).float().mean()
    assert accuracy > (unary.argmax(1) == y).float().mean() + 0.05
