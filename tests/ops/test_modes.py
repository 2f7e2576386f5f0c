"""Operators under autocast and without gradients, and what is kept from such calls."""

import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops


@pytest.fixture
def lattice():
    return Lattice.build(torch.randn(40, 3))


@pytest.fixture
def values(lattice):
    return torch.randn(lattice.num_vertices, 4)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(lattice, half):
    x = torch.randn(40, 4).to(half)
    values = lattice.splat(x)
    assert values.dtype == half
    assert_close(values, lattice.splat(x.float()).to(half))
    assert_close(lattice.blur(values), lattice.blur(values.float()).to(half))
    assert_close(lattice.slice(values), lattice.slice(values.float()).to(half))
    filter = torch.randn(15, 4, 3).to(half)
    expected = lattice.convolve(values.float(), filter.float()).to(half)
    assert_close(lattice.convolve(values, filter), expected)


def test_autocast(lattice, values):
    """Operators take what autocast has made half precision, and compute in single."""
    neighbors = lattice.neighbors()
    opposite = ops.opposite(lattice.code, 3, 1, "full")
    incidence = (lattice.weight, lattice.vertex)
    filter = torch.randn(15, 4, 3)
    halves = values.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = [
            ops.slice(halves, *incidence, None, None, None),
            ops.splat(halves[:40], *incidence, lattice.num_vertices, None, None, None),
            ops.dot(halves[:40], halves, lattice.vertex, None, None, None),
            ops.convolve(halves, filter.bfloat16(), neighbors, opposite, 1),
            ops.convolve_channelwise(halves, filter[:, 0, :1].bfloat16(), neighbors, opposite),
        ]
    assert all(out.dtype == torch.float32 for out in outputs)
    assert_close(outputs[0], ops.slice(halves.float(), *incidence, None, None, None))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("threads", [1, 2])
def test_without_gradients(lattice, values, mode, threads):
    """The modes belong to the calling thread, and the work to others."""
    filters = torch.randn(15), torch.randn(15, 4, 3), torch.randn(15, 2, 4)
    expected = [
        lattice.slice(lattice.blur(values)),
        lattice.convolve(values, filters[0], shared=True),
        lattice.convolve(values, filters[1]),
        lattice.convolve(values, filters[2], groups=2),
    ]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with mode():
            fresh = Lattice.build(lattice.feature)
            outputs = [
                fresh.slice(fresh.blur(values)),
                fresh.convolve(values, filters[0], shared=True),
                fresh.convolve(values, filters[1]),
                fresh.convolve(values, filters[2], groups=2),
            ]
            assert_close(outputs, expected)
    finally:
        torch.set_num_threads(before)


def test_gradients_after_a_call_without(lattice, values):
    """Results cached by the first call stay differentiable in the features."""
    feature = torch.randn(10, 3, requires_grad=True)
    at = lattice.locate(feature)
    with torch.no_grad():
        at.slice(values)
    at.slice(values).sum().backward()
    (expected,) = torch.autograd.grad(lattice.locate(feature).slice(values).sum(), feature)
    assert_close(feature.grad, expected)


@pytest.mark.parametrize("name", ["blur", "convolve", "slice", "splat"])
def test_gradients_after_inference(lattice, values, name):
    """Evaluate first, train then, with one lattice."""
    calls = {
        "blur": lambda: lattice.blur(values),
        "convolve": lambda: lattice.convolve(values, torch.ones(15, 4, 2)),
        "slice": lambda: lattice.slice(values),
        "splat": lambda: lattice.splat(values[:40]),
    }
    with torch.inference_mode():
        calls["splat"]()
        expected = calls[name]()
    values.requires_grad_()
    out = calls[name]()
    out.sum().backward()
    assert_close(out.detach(), expected.clone())
    assert values.grad.any()
