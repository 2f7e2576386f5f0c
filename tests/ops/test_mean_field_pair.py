"""Mean field of two labels by their difference, against both labels."""

import pytest
import torch

from permutogeo.nn import Compatibility, DenseCRF, GaussianKernel, LearnedKernel
from permutogeo.ops import mean_field as module


@pytest.fixture
def used(monkeypatch):
    """Records which rows of labels are used."""
    made = []
    for name in ("_PairRows", "_LabelRows"):
        kind = getattr(module, name)

        def make(*args, kind=kind):
            made.append(kind.__name__)
            return kind(*args)

        monkeypatch.setattr(module, name, make)
    return made


def solve(crf, unary, features):
    with torch.no_grad():
        return crf(unary, features)


@pytest.mark.parametrize("normalize", ["symmetric", "before", "after", None])
@pytest.mark.parametrize("mu", ["potts", "two numbers"])
def test_is_mean_field_of_both_labels(used, normalize, mu):
    """In float32 and one number for each point, against float64 and operators one by one."""
    compatibility = "potts" if mu == "potts" else torch.tensor([[0.5, 2.0], [2.0, 0.5]])
    unary, features = 3 * torch.randn(20000, 2), [torch.rand(20000, 2) * 20, torch.rand(20000, 3)]
    kernels = [GaussianKernel(2, weight=2.0), GaussianKernel(3, 0.2, weight=0.5)]
    kinds = Compatibility(2, compatibility)
    crf = DenseCRF(2, kernels, kinds, 4, normalize=normalize)
    scale = 1.0 if normalize else 0.01
    unary = unary * scale
    got = solve(crf, unary, features)
    assert used == ["_PairRows"]
    expected = solve(crf.double(), unary.double(), [each.double() for each in features])
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["diagonal", "matrix", "learned kernel"])
def test_other_kernels_keep_both_labels(used, kind):
    """The messages to the two labels are not opposite, so that the difference is not enough."""
    compatibility = {
        "diagonal": torch.tensor([-1.0, -2.0]),
        "matrix": torch.tensor([[0.0, 1.0], [2.0, 1.0]]),
    }.get(kind, "potts")
    kernel = LearnedKernel(2) if kind == "learned kernel" else GaussianKernel(2)
    crf = DenseCRF(2, [kernel], Compatibility(2, compatibility), 3)
    unary, features = torch.randn(500, 2), [torch.rand(500, 2) * 9]
    got = solve(crf, unary, features)
    assert used == ["_LabelRows"]
    expected = solve(crf.double(), unary.double(), [each.double() for each in features])
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


def test_bits_do_not_depend_on_threads(used):
    unary, features = torch.randn(70000, 2), [torch.rand(70000, 2) * 20, torch.rand(70000, 3) * 9]
    crf = DenseCRF(2, [GaussianKernel(2), GaussianKernel(3)], num_steps=3)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5, 8):
            torch.set_num_threads(threads)
            found.append(solve(crf, unary, features))
    finally:
        torch.set_num_threads(before)
    assert set(used) == {"_PairRows"}
    assert all(torch.equal(found[0], each) for each in found[1:])
