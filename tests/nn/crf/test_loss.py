import pytest
import torch

from permutogeo.functional import brute_force_filter
from permutogeo.nn import CRFLoss, GaussianKernel, LearnedKernel

DOUBLE = torch.float64


@pytest.fixture
def points():
    return torch.randn(30, 4, dtype=DOUBLE), torch.rand(30, 2, dtype=DOUBLE) * 3


def test_is_close_to_the_exact_pairs(points):
    """The lattice's Gaussian against the exact one, both normalized."""
    x, feature = points
    q = x.softmax(1)
    exact = (q * brute_force_filter(1 - q, feature, normalize="after")).sum() / 30
    loss = CRFLoss([GaussianKernel(2)], normalize="after")(x, [feature])
    assert abs(loss - exact) < 0.02 * exact


def test_gradcheck(points):
    x, feature = points[0][:8].requires_grad_(), points[1][:8].requires_grad_()
    loss = CRFLoss([GaussianKernel(2), LearnedKernel(2)], exclude_self=True).double()
    assert torch.autograd.gradcheck(lambda x, f: loss(x, [f, f]), (x, feature))


def test_equal_labels_cost_nothing(points):
    x, feature = points
    same = torch.tensor([[100.0, 0.0, 0.0, 0.0]], dtype=DOUBLE).expand(30, 4)
    loss = CRFLoss([GaussianKernel(2, weight=3.0)])
    assert loss(same, [feature]) < 1e-12
    assert loss(x, [feature]) > 0.1


def test_reductions_and_batches(points):
    x, feature = points
    batch = torch.arange(30) % 3
    parts = {how: CRFLoss([GaussianKernel(2)], reduction=how) for how in ("mean", "sum", "none")}
    share = parts["none"](x, [feature], batch)
    assert share.shape == (30,)
    torch.testing.assert_close(parts["sum"](x, [feature], batch), share.sum())
    torch.testing.assert_close(parts["mean"](x, [feature], batch), share.mean())
    one = parts["none"](x[batch == 1], [feature[batch == 1]])
    torch.testing.assert_close(share[batch == 1], one)
    assert CRFLoss([GaussianKernel(2)])(x[:0], [feature[:0]]) == 0


def test_few_labels_and_the_loss_are_enough():
    """Two blobs, one labeled point each: the loss spreads the labels."""
    feature = torch.cat([torch.randn(100, 2) - 4, torch.randn(100, 2) + 4])
    y = torch.arange(200) // 100
    x = (0.01 * torch.randn(200, 2)).requires_grad_()
    loss = CRFLoss([GaussianKernel(2, 1.5)])
    optimizer = torch.optim.Adam([x], 0.3)
    for _ in range(60):
        optimizer.zero_grad()
        known = torch.nn.functional.cross_entropy(x[[0, 199]], y[[0, 199]])
        (known + 3 * loss(x, [feature])).backward()
        optimizer.step()
    assert (x.argmax(1) == y).float().mean() > 0.95


def test_errors(points):
    x, feature = points
    with pytest.raises(ValueError, match=r"^CRFLoss: .*'reduction' to be 'mean', 'sum' or 'none'"):
        CRFLoss([GaussianKernel(2)], reduction="max")
    with pytest.raises(ValueError, match=r"^CRFLoss: .*'features\[0\]' of shape \[30, 2\]"):
        CRFLoss([GaussianKernel(2)])(x, [feature[:, :1]])
