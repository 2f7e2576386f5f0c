import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import BilateralConv, LatticeConv
from permutogeo.ops import stencils

OPTIONS = [{}, {"radius": 2}, {"groups": 2, "dilation": 2}, {"stencil": "axis"}, {"bias": False}]


def test_str():
    assert str(LatticeConv(8, 16, dim=3)) == "LatticeConv(8, 16, dim=3, radius=1)"
    layer = LatticeConv(8, 8, dim=3, radius=2, shared=True, bias=False)
    assert str(layer) == "LatticeConv(8, 8, dim=3, radius=2, bias=False, shared=True)"


@pytest.mark.parametrize("options", OPTIONS)
def test_is_what_stands_between_splat_and_slice(cloud, options):
    data = cloud(graphs=2)
    layer = LatticeConv(4, 6, 3, **options).double()
    whole = BilateralConv(4, 6, 3, **options).double()
    whole.load_state_dict(layer.state_dict())
    out = data.lattice.slice(layer(data.lattice.splat(data.x), data.lattice))
    torch.testing.assert_close(out, whole(data.x, data.feature, data.batch))


@pytest.mark.parametrize("options", [*OPTIONS, {"shared": True}, {"residual_to_gaussian": True}])
def test_routes_agree(cloud, same_routes, options):
    data = cloud(graphs=2)
    layer = LatticeConv(4, 4, 3, **options).double()
    same_routes(layer, data.values.requires_grad_(), data.lattice, leaves=(data.values,))


def test_starts_as_the_gaussian(cloud):
    data = cloud()
    layer = LatticeConv(4, 4, 3, init="gaussian").double()
    layer.reset_parameters()
    expected = data.lattice.convolve(data.values, stencils.gaussian(3, 1), shared=True)
    torch.testing.assert_close(layer(data.values, data.lattice), expected)


def test_three_graphs_are_three_calls(three_calls):
    together, clouds = three_calls()
    layer = LatticeConv(4, 6, 2).double()
    singles = [layer(each.lattice.splat(each.x), each.lattice) for each in clouds]
    out = layer(together.lattice.splat(together.x), together.lattice)
    torch.testing.assert_close(out, torch.cat(singles), rtol=1e-12, atol=1e-12)


def test_gradients(cloud):
    data = cloud(8, dim=2, channels=2)
    layer = LatticeConv(2, 3, 2).double()

    def call(values, weight, bias):
        state = {"filter_weight": weight, "bias": bias}
        return torch.func.functional_call(layer, state, (values, data.lattice))

    leaves = (data.values.requires_grad_(), *layer.parameters())
    assert torch.autograd.gradcheck(call, leaves)


def test_empty():
    lattice = Lattice.build(torch.empty(0, 3))
    assert LatticeConv(4, 6, 3)(torch.empty(0, 4), lattice).shape == (0, 6)


LATTICE = Lattice.build(torch.tensor([[0.1, 0.2, 0.3]]))
VALUES = torch.rand(4, 4)
BAD = [
    ("list", ([1.0], LATTICE), TypeError, r"'values' to be a tensor \(got list\)"),
    (
        "short",
        (VALUES[:3], LATTICE),
        ValueError,
        r"'values' of shape \[4, 4\], .*4 vertices.*\[3, 4",
    ),
    (
        "channels",
        (VALUES[:, :3], LATTICE),
        ValueError,
        r"'values' of shape \[4, 4\] \(got \[4, 3\]",
    ),
    ("int", (VALUES.long(), LATTICE), TypeError, r"'values' of a floating.*got torch.int64"),
    ("device", (VALUES.to("meta"), LATTICE), ValueError, r"'values' on cpu .*got meta"),
    ("lattice", (VALUES, VALUES), TypeError, r"'lattice' to be a Lattice \(got Tensor\)"),
    ("dim", (VALUES, Lattice.build(VALUES)), ValueError, r"'lattice' of dim=3 .*dim=4"),
]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD]
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=f"^LatticeConv: Expected {message}"):
        LatticeConv(4, 8, dim=3)(*arguments)


def test_errors_of_devices():
    with pytest.raises(ValueError, match=r"^LatticeConv: Expected 'values' on meta like .*got cpu"):
        LatticeConv(4, 8, dim=3).to("meta")(VALUES, LATTICE)
