import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.nn import LatticeSlice

DOUBLE = torch.float64


def trained(*arguments, **options):
    """A layer that has learned something: offsets are no longer zero."""
    layer = LatticeSlice(*arguments, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return layer


def test_str():
    assert str(LatticeSlice(8, dim=3)) == "LatticeSlice(8, dim=3, hidden_channels=8)"
    assert str(LatticeSlice(-1, 2, 4)) == "LatticeSlice(-1, dim=2, hidden_channels=4)"


def test_starts_as_the_plain_slice(cloud):
    data = cloud(graphs=2)
    layer = LatticeSlice(4, 3).double()
    assert torch.equal(layer(data.values, data.lattice), data.lattice.slice(data.values))
    at = data.lattice.locate(data.other, torch.zeros(len(data.other), dtype=torch.int64))
    assert (at.vertex < 0).any() and (at.vertex >= 0).any()
    expected = data.lattice.slice(data.values, at)
    assert torch.equal(layer(data.values, data.lattice, at), expected)


def test_learns_offsets(cloud):
    data = cloud()
    layer = LatticeSlice(4, 3).double()
    for parameter in layer.parameters():
        assert parameter.requires_grad
    layer(data.values, data.lattice).square().sum().backward()
    assert layer.lin_offset.weight.grad.any() and layer.lin_offset.bias.grad.any()
    with torch.no_grad():
        layer.lin_offset.bias.fill_(0.25)
    corners = data.values[data.lattice.vertex.long()]
    weight = data.lattice.weight + 0.25
    expected = torch.einsum("nk,nkc->nc", weight, corners)
    torch.testing.assert_close(layer(data.values, data.lattice), expected)


def test_routes_agree(cloud, same_routes):
    data = cloud(graphs=2)
    data.feature.requires_grad_(), data.other.requires_grad_(), data.values.requires_grad_()
    lattice = Lattice.build(data.feature, data.batch)
    layer = trained(4, 3)
    same_routes(layer, data.values, lattice, leaves=(data.values, data.feature))
    at = lattice.locate(data.other, torch.arange(20) % 2)
    same_routes(layer, data.values, lattice, at, leaves=(data.values, data.other))


def test_three_graphs_are_three_calls(three_calls):
    together, clouds = three_calls()
    layer = trained(4, 2)
    singles = [layer(each.lattice.splat(each.x), each.lattice) for each in clouds]
    out = layer(together.lattice.splat(together.x), together.lattice)
    torch.testing.assert_close(out, torch.cat(singles), rtol=1e-12, atol=1e-12)


def test_gradients(cloud):
    layer = trained(2, 2, hidden_channels=2)
    names = [name for name, _ in layer.named_parameters()]
    feature = (torch.rand(5, 2, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(5, 2, dtype=DOUBLE, requires_grad=True)

    def call(x, feature, *parameters):
        lattice = Lattice.build(feature)
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, state, (lattice.splat(x), lattice))

    assert torch.autograd.gradcheck(call, (x, feature, *layer.parameters()))


def test_the_plan_is_made_once(cloud, monkeypatch):
    """Offsets change the weights of corners, not the corners."""
    data = cloud(graphs=2)
    layer = trained(4, 3)
    data.values.requires_grad_()
    made, plan = [], ops.splat_plan
    monkeypatch.setattr(ops, "splat_plan", lambda *arguments: made.append(1) or plan(*arguments))
    for _ in range(4):
        layer(data.values, data.lattice).sum().backward()
    assert len(made) == 1


def test_empty():
    lattice = Lattice.build(torch.empty(0, 3))
    assert LatticeSlice(4, 3)(torch.empty(0, 4), lattice).shape == (0, 4)


def test_errors(cloud):
    data = cloud(dtype=torch.float32)
    layer = LatticeSlice(4, 3)
    with pytest.raises(ValueError, match=r"^LatticeSlice: Expected 'values' of shape \[.*, 4\]"):
        layer(data.values[:, :3], data.lattice)
    with pytest.raises(TypeError, match=r"^LatticeSlice: Expected 'lattice' to be a Lattice"):
        layer(data.values, data.values)
    with pytest.raises(TypeError, match=r"^LatticeSlice: Expected 'at' to be an Incidence"):
        layer(data.values, data.lattice, data.values)
    with pytest.raises(ValueError, match=r"^LatticeSlice: Expected 'hidden_channels' "):
        LatticeSlice(4, 3, 0)
    with pytest.raises(ValueError, match=r"^LatticeSlice: Expected 'at' on cpu .*\(got meta\)"):
        layer(data.values, data.lattice, data.lattice.locate(data.other).to("meta"))
    with pytest.raises(ValueError, match=r"^LatticeSlice: Expected 'values' on meta .*got cpu\)"):
        LatticeSlice(4, 3).to("meta")(data.values, data.lattice)
