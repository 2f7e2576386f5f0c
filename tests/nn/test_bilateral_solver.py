import copy

import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import BilateralLabelPropagation, BilateralSolver
from permutogeo.solvers import bilateral_label_propagation, bilateral_solve


def test_str():
    assert str(BilateralSolver(3)) == "BilateralSolver(dim=3, sigma=1.0, lam=1)"
    layer = BilateralSolver(2, [0.5, 2], 4.0, learn_sigma=True, learn_lam=True)
    assert str(layer) == (
        "BilateralSolver(dim=2, sigma=[0.5, 2.0], lam=4, learn_sigma=True, learn_lam=True)"
    )
    layer = BilateralLabelPropagation(5, 3, 0.1, hard=True)
    assert str(layer) == "BilateralLabelPropagation(5, dim=3, sigma=0.1, lam=1, hard=True)"


@pytest.mark.parametrize("graphs", [None, 2])
def test_is_the_twin_of_the_function(cloud, graphs):
    data = cloud(graphs=graphs)
    confidence, hard = torch.rand(40).double(), torch.arange(40) % 5 == 0
    layer = BilateralSolver(3, 0.5, 2.0)
    out = layer(data.x, confidence, data.feature, data.batch, hard=hard)
    scaled = data.feature / 0.5
    assert torch.equal(out, bilateral_solve(data.x, confidence, scaled, data.batch, 2.0, hard))
    assert layer.report.converged and layer.report.iterations > 0
    lattice = Lattice.build(scaled, data.batch)
    assert torch.equal(layer(data.x, confidence, None, lattice=lattice, hard=hard), out)
    label = torch.where(hard | (torch.arange(40) < 2), torch.arange(40) % 3, -1)
    propagate = BilateralLabelPropagation(3, 3, 0.5)
    expected = bilateral_label_propagation(label, scaled, data.batch, 3)
    assert torch.equal(propagate(label, data.feature, data.batch), expected)
    assert propagate.report.converged
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(data.x, confidence, data.feature, data.batch, hard=hard), out)


def test_learns_its_smoothness():
    """Gradient descent recovers the settings of a solver from its output."""
    feature, x, confidence = torch.rand(300, 2) * 4, torch.rand(300, 2), torch.rand(300)
    with torch.no_grad():
        target = BilateralSolver(2, 0.5, 3.0)(x, confidence, feature)
    layer = BilateralSolver(2, 0.5, 1.0, learn_lam=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.2)
    for _ in range(25):
        optimizer.zero_grad()
        (layer(x, confidence, feature) - target).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(layer.lam, torch.tensor(3.0), rtol=0.1, atol=0)
    layer.reset_parameters()
    torch.testing.assert_close(layer.lam, torch.tensor(1.0))


def test_learns_its_bandwidth():
    feature, x = torch.rand(300, 2) * 4, torch.rand(300, 2)
    layer = BilateralSolver(2, 0.7, learn_sigma=True)
    layer(x, None, feature).square().sum().backward()
    assert layer.bandwidth.log_sigma.grad.abs().min() > 0
    torch.testing.assert_close(layer.sigma, torch.full((2,), 0.7))


X, F = torch.rand(10, 4), torch.rand(10, 3)
BAD = [
    (lambda: BilateralSolver(0), "'dim' of at least 1"),
    (lambda: BilateralSolver(3, -1.0), "'sigma'"),
    (lambda: BilateralSolver(3, lam=0.0), "'lam' greater than 0"),
    (lambda: BilateralSolver(3, tolerance=1.0), "'tolerance'"),
    (lambda: BilateralSolver(3)(X, None, F[:, :2]), r"'feature' of shape \[N, 3\]"),
    (lambda: BilateralSolver(3)(X, torch.zeros(10), F), "at least one known point"),
    (
        lambda: BilateralSolver(3, learn_sigma=True)(X, None, F, lattice=Lattice.build(F)),
        "no 'lattice' with learn_sigma=True",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_errors(call, message):
    with pytest.raises(ValueError, match=f"^BilateralSolver: Expected.*{message}"):
        call()
