import pytest
import torch

from permutogeo.nn import GaussianFilter
from permutogeo.nn.bandwidth import Bandwidth


def test_divides_features():
    feature = torch.rand(5, 2)
    for learn in (False, True):
        bandwidth = Bandwidth(None, 2, [0.5, 4.0], learn)
        assert bandwidth.learned == learn
        torch.testing.assert_close(bandwidth(feature), feature / torch.tensor([0.5, 4.0]))
    ones = Bandwidth(None, 2, 1.0, learn=False)
    assert ones(feature) is feature


def test_stays_positive_and_resets():
    bandwidth = Bandwidth(None, 3, 2.0, learn=True)
    torch.nn.init.constant_(bandwidth.log_sigma, -50.0)
    assert (bandwidth.sigma > 0).all()
    bandwidth.reset_parameters()
    torch.testing.assert_close(bandwidth.sigma, torch.full((3,), 2.0))


def test_gradient():
    bandwidth = Bandwidth(None, 2, [0.5, 4.0], learn=True).double()
    feature = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(bandwidth, feature)


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf"), [1.0, 2.0]])
def test_errors_of_sigma(sigma):
    with pytest.raises(ValueError, match=r"^GaussianFilter: Expected 'sigma' to be one positive"):
        GaussianFilter(3, sigma)
