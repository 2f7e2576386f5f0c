import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import LatticeUnpool

DOUBLE = torch.float64
each_mode = pytest.mark.parametrize("mode", ["slice", "learned"])


def test_str():
    assert str(LatticeUnpool(8, 8, dim=3)) == "LatticeUnpool(8, 8, dim=3, mode='slice')"
    layer = LatticeUnpool(8, 16, dim=2, mode="learned")
    assert str(layer) == "LatticeUnpool(8, 16, dim=2, mode='learned')"
    assert layer.filter_weight.shape == (7, 8, 16)


def coarse_values(lattice, channels=4):
    coarse, at = lattice.coarsen()
    return torch.randn(coarse.num_vertices, channels, dtype=DOUBLE), lattice, coarse, at


def test_slices(cloud):
    values, lattice, coarse, at = coarse_values(cloud().lattice)
    out = LatticeUnpool(4, 4, 3)(values, lattice, coarse, at)
    assert torch.equal(out, coarse.slice(values, at))


@each_mode
def test_skip(cloud, mode):
    data = cloud()
    arguments = coarse_values(data.lattice)
    layer = LatticeUnpool(4, 4, 3, mode).double()
    out = layer(*arguments, data.values)
    assert torch.equal(out, torch.cat([layer(*arguments), data.values], 1))


@each_mode
def test_routes_agree(cloud, same_routes, mode):
    values, *lattices = coarse_values(cloud(graphs=2).lattice)
    layer = LatticeUnpool(4, 4, 3, mode).double()
    same_routes(layer, values.requires_grad_(), *lattices, leaves=(values,))


@each_mode
def test_gradients(cloud, mode):
    values, *lattices = coarse_values(cloud(6, dim=2).lattice, 2)
    layer = LatticeUnpool(2, 2, 2, mode).double()

    def call(values, *parameters):
        state = dict(zip([n for n, _ in layer.named_parameters()], parameters, strict=True))
        return torch.func.functional_call(layer, state, (values, *lattices))

    assert torch.autograd.gradcheck(call, (values.requires_grad_(), *layer.parameters()))


@each_mode
def test_empty(mode):
    lattice = Lattice.build(torch.empty(0, 3))
    out = LatticeUnpool(4, 4, 3, mode)(torch.empty(0, 4), lattice, *lattice.coarsen())
    assert out.shape == (0, 4)


LATTICE = Lattice.build(torch.tensor([[0.1, 0.2, 0.3]]))
COARSE, AT = LATTICE.coarsen()
VALUES = torch.rand(4, 4)
BAD = [
    (
        "short",
        (VALUES[:3], LATTICE, COARSE, AT),
        ValueError,
        r"'values' of shape \[4, 4\].*\[3, 4\]",
    ),
    ("skip", (VALUES, LATTICE, COARSE, AT, VALUES[:3]), ValueError, r"'skip' of shape .*\[3, 4\]"),
    ("coarse", (VALUES, LATTICE, 1, AT), TypeError, r"'coarse' to be a Lattice \(got int\)"),
    ("at", (VALUES, LATTICE, COARSE, 1), TypeError, r"'at' to be an Incidence \(got int\)"),
    (
        "coarse device",
        (VALUES, LATTICE, COARSE.to("meta"), AT.to("meta")),
        ValueError,
        r"'coarse' on cpu like 'lattice' \(got meta\)",
    ),
    (
        "at device",
        (VALUES, LATTICE, COARSE, AT.to("meta")),
        ValueError,
        r"'at' on cpu like the lattice \(got meta\)",
    ),
    (
        "coarse of another graph",
        (VALUES, LATTICE, *Lattice.build(LATTICE.feature, torch.tensor([3])).coarsen()),
        ValueError,
        r"'coarse' and 'at' as lattice.coarsen\(\) returns them \(got .* of other points\)",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD]
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=f"^LatticeUnpool: Expected {message}"):
        LatticeUnpool(4, 4, dim=3)(*arguments)


def test_errors_of_options():
    with pytest.raises(ValueError, match=r"^LatticeUnpool: Expected 'mode' to be 'slice' or"):
        LatticeUnpool(4, 4, 3, "max")
