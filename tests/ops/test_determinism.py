"""The same bits whatever the number of threads, forward and backward."""

import sys

import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops

THREADS = (1, 2, 3, 5)


@pytest.fixture(autouse=True)
def _restore_threads(monkeypatch):
    """Clouds of a testable size, cut into as many pieces as large ones would be."""
    monkeypatch.setattr(sys.modules["permutogeo.ops.insert"], "_FEWEST_POINTS", 1000)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# Many points at each vertex are splatted into private copies; few are summed by vertex.
@pytest.fixture(params=[0.5, 12.0], ids=["copies", "by_vertex"], scope="module")
def lattice(request):
    generator = torch.Generator().manual_seed(0)
    feature = request.param * torch.randn(12000, 3, generator=generator)
    lattice = Lattice.build(feature, torch.arange(12000) // 6000)
    _, begin, _ = lattice.incidence.splat_plan(sort=True)
    assert (begin.numel() == 0) == (request.param == 0.5)
    return lattice


def assert_same_bits(function, *inputs):
    """Outputs and gradients in all inputs, compared with those of one thread."""
    first = None
    for threads in THREADS:
        torch.set_num_threads(threads)
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        outputs = function(*leaves)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        differentiable = [out for out in outputs if out.requires_grad]
        if differentiable:
            grads = [torch.linspace(-1, 1, o.numel()).view_as(o) for o in differentiable]
            outputs += torch.autograd.grad(differentiable, leaves, grads)
        if first is None:
            first = [out.detach() for out in outputs]
        assert_close([out.detach() for out in outputs], first, rtol=0, atol=0)


def random_values(lattice, channels):
    return torch.randn(lattice.num_vertices, channels)


def test_build(lattice):
    assert_same_bits(lambda f: ops.build(f, lattice.batch, 0.5), lattice.feature)


def test_build_of_several_words():
    feature = torch.cat([torch.randn(3000, 3), 1e7 + torch.randn(3000, 3)])
    assert_same_bits(lambda f: ops.build(f, None, 0.5), feature)


def test_locate(lattice):
    code, box, batch = lattice.code, lattice.box, lattice.batch
    assert_same_bits(
        lambda f: ops.locate(f, batch, code, box, ops.hash_codes(code), 0.5), lattice.feature + 0.1
    )


def test_neighbors(lattice):
    assert_same_bits(lambda: ops.neighbors(lattice.code, lattice.box, 1, 2, "full"))


def test_plan(lattice):
    assert_same_bits(lambda: ops.splat_plan(lattice.vertex, lattice.num_vertices, None, None, True))


@pytest.mark.parametrize("channels", [1, 21])
def test_splat_slice_and_dot(lattice, channels):
    vertex, count = lattice.vertex, lattice.num_vertices
    x, values = torch.randn(12000, channels), random_values(lattice, channels)
    none = (None, None, None)
    assert_same_bits(lambda x, w: ops.splat(x, w, vertex, count, *none), x, lattice.weight)
    assert_same_bits(lambda v, w: ops.slice(v, w, vertex, *none), values, lattice.weight)
    assert_same_bits(lambda x, v: ops.dot(x, v, vertex, *none), x, values)


def test_embed(lattice):
    feature, grad = lattice.feature, torch.randn(12000, 4)
    assert_same_bits(lambda y: ops.embed_adjoint(y, feature, 0.5), grad)
    assert_same_bits(lambda x: ops.embed_tangent(x, feature, 0.5), feature + 1)


def test_blur(lattice):
    neighbors = lattice.neighbors(1, 1, "axis")
    values = random_values(lattice, 21)
    assert_same_bits(lambda v: ops.blur(v, neighbors, 3, [0.5, 1.0, 0.5], False), values)


@pytest.mark.parametrize(
    ("inputs", "outputs", "groups"), [(16, 6, 1), (16, 6, 2), (1, 16, 1), (32, 48, 1)]
)
def test_convolve(lattice, inputs, outputs, groups):
    neighbors = lattice.neighbors()
    opposite = ops.opposite(lattice.code, 3, 1, "full")
    values, filter = random_values(lattice, inputs), torch.randn(15, inputs // groups, outputs)
    rest = (neighbors, opposite, groups)
    assert_same_bits(lambda v, f: ops.convolve(v, f, *rest), values, filter)
    grad = random_values(lattice, outputs)
    assert_same_bits(lambda v, g: ops.correlate(v, g, *rest), values, grad)


@pytest.mark.parametrize("shared", [True, False])
def test_convolve_channelwise(lattice, shared):
    neighbors = lattice.neighbors()
    opposite = ops.opposite(lattice.code, 3, 1, "full")
    values, filter = random_values(lattice, 21), torch.randn(15, 1 if shared else 21)
    assert_same_bits(
        lambda v, f: ops.convolve_channelwise(v, f, neighbors, opposite), values, filter
    )
    assert_same_bits(
        lambda v, g: ops.correlate_channelwise(v, g, neighbors, opposite, shared),
        values,
        random_values(lattice, 21),
    )


def test_features_through_the_whole_filter(lattice):
    def smooth(feature, x):
        built = Lattice.build(feature, lattice.batch)
        return built.slice(built.blur(built.splat(x)))

    assert_same_bits(smooth, lattice.feature, torch.randn(12000, 4))
