"""``torch.func``, forward mode, copies and the meta device: layers of one call and models."""

import copy
import pickle

import pytest
import torch
from torch.func import functional_call, grad, jacrev, jvp, vmap

import permutogeo.compat.spconv.pytorch as spconv
from permutogeo import Lattice, models, nn
from permutogeo.solvers import bilateral_solve

DOUBLE = torch.float64


class OnLattice(torch.nn.Module):
    """A layer on the lattice of its points."""

    def __init__(self, layer, splat):
        super().__init__()
        self.layer, self.splat = layer, splat

    def forward(self, x, feature):
        lattice = Lattice.build(feature)
        return self.layer(lattice.splat(x) if self.splat else x, lattice)


class Voxels(torch.nn.Module):
    """Layers of spconv on the features of a sparse tensor."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x, indices):
        tensor = spconv.SparseConvTensor(x, indices, [6, 5, 4], 2)
        for layer in self.layers:
            tensor = layer(tensor)
        return tensor.features


def points(*shapes):
    return [torch.randn(shape, dtype=DOUBLE) for shape in shapes]


def voxels():
    indices = (torch.rand(2, 6, 5, 4) < 0.4).nonzero().int()
    return torch.randn(len(indices), 4, dtype=DOUBLE), indices


def clouds():
    x, y, a, b = points((20, 3), (25, 3), (20, 3), (25, 3))
    return (x, y), (a, b)


def views():
    return *clouds(), *points((25, 2))


def down():
    return spconv.SparseConv3d(4, 6, 3, 2, 1, indice_key="down")


CASES = {
    "LatticeAttention": (
        lambda: OnLattice(nn.LatticeAttention(4, 6, 2, heads=2), True),
        lambda: points((30, 4), (30, 2)),
    ),
    "PointNetSplat": (
        lambda: OnLattice(nn.PointNetSplat(4, 6, 2), False),
        lambda: points((30, 4), (30, 2)),
    ),
    "BilateralTransformer": (
        lambda: models.BilateralTransformer(4, 4, 3, dim=2, depth=1),
        lambda: points((30, 4), (30, 2)),
    ),
    "HPLFlowNet": (lambda: models.HPLFlowNet(3, 4, 3, dim=3, depth=1), clouds),
    "SplatNet2D3D": (lambda: models.SplatNet2D3D((3, 3), 4, (2, 2)), views),
    "PermutohedralEncoding": (
        lambda: nn.PermutohedralEncoding(3, num_levels=3),
        lambda: [torch.rand(20, 3, dtype=DOUBLE)],
    ),
    "BilateralSolver": (
        lambda: nn.BilateralSolver(2, learn_sigma=True, learn_lam=True, tolerance=1e-13),
        lambda: [points((30, 2))[0], torch.rand(30, dtype=DOUBLE) + 0.1, *points((30, 2))],
    ),
    "SparseConv3d": (
        lambda: Voxels(down(), spconv.SparseInverseConv3d(6, 4, 3, indice_key="down")),
        voxels,
    ),
    "SparseMaxPool3d": (
        lambda: Voxels(spconv.SubMConv3d(4, 6, 3), spconv.SparseMaxPool3d(3, 2, 1)),
        voxels,
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    make, inputs = CASES[request.param]
    module = make().double().eval()
    return module, inputs(), make


def result(module, parameters, inputs):
    out = functional_call(module, parameters, tuple(inputs))
    return out[0] if isinstance(out, tuple) else out


def test_derivatives_of_both_modes(case):
    """``grad`` is autograd's gradient, and ``jvp`` its product with a direction."""
    module, inputs, _ = case
    values = {name: each.detach() for name, each in module.named_parameters()}

    def loss(parameters):
        return result(module, parameters, inputs).square().sum()

    leaves = {name: each.clone().requires_grad_() for name, each in values.items()}
    expected = torch.autograd.grad(loss(leaves), list(leaves.values()), materialize_grads=True)
    found = grad(loss)(values)
    torch.testing.assert_close(list(found.values()), list(expected), rtol=1e-7, atol=1e-9)
    direction = {name: torch.randn_like(each) for name, each in values.items()}
    _, slope = jvp(loss, (values,), (direction,))
    total = sum((found[name] * direction[name]).sum() for name in found)
    torch.testing.assert_close(slope, total, rtol=1e-6, atol=1e-8)


def test_copies(case):
    module, inputs, _ = case
    expected = result(module, {}, inputs)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(result(twin, {}, inputs), expected)


def test_meta_device(case):
    """A module made without memory is complete after ``to_empty`` and ``reset_parameters``."""
    module, inputs, make = case
    with torch.device("meta"):
        twin = make()
    assert all(each.is_meta for each in twin.parameters())
    twin = twin.to_empty(device="cpu").double().eval()
    for part in twin.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    assert result(twin, {}, inputs).isfinite().all()
    buffers = dict(module.named_buffers())
    assert all(torch.equal(each, buffers[name]) for name, each in twin.named_buffers())


def test_the_solver_in_forward_mode():
    """In all arguments, with points that are held, against finite differences."""
    held = torch.arange(40) < 5
    x, feature = points((40, 2), (40, 2))
    arguments = (x, torch.rand(40, dtype=DOUBLE) + 0.1, feature, torch.tensor(0.7, dtype=DOUBLE))
    direction = tuple(map(torch.randn_like, arguments))

    def loss(x, confidence, feature, lam):
        out = bilateral_solve(x, confidence, feature, lam=lam, hard=held, tolerance=1e-13)
        return out.square().sum()

    _, slope = jvp(loss, arguments, direction)
    ahead, behind = (
        loss(*(a + sign * 1e-6 * d for a, d in zip(arguments, direction, strict=True)))
        for sign in (1, -1)
    )
    torch.testing.assert_close(slope, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-6)


def test_what_depends_on_data_is_refused_in_one_sentence():
    x, feature = points((2, 10, 3), (10, 2))

    def solve(x):
        return bilateral_solve(x, None, feature)

    with pytest.raises(RuntimeError, match=r"^Expected a call outside of torch.vmap"):
        vmap(solve)(x)
    with pytest.raises(RuntimeError, match=r"^PermutohedralEncoding: Expected a call outside"):
        vmap(nn.PermutohedralEncoding(3, num_levels=2).double())(x)
    with pytest.raises(RuntimeError, match=r"^Expected a call outside of torch.vmap"):
        jacrev(solve)(x[0])
    with pytest.raises(RuntimeError, match=r"^Expected at most one transform of torch.func"):
        grad(lambda x: grad(lambda y: solve(y).square().sum())(x).sum())(x[0])
