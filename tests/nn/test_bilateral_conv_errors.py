"""Errors for bad input to a layer: layer, argument, expected and actual value."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import BilateralConv

X, FEATURE, ZERO = torch.rand(10, 4), torch.rand(10, 3), torch.zeros(10, dtype=torch.int64)
LATTICE = Lattice.build(FEATURE)
NINE = Lattice.build(FEATURE[:9])
CALLS = [
    ("x list", ([1.0], FEATURE), TypeError, r"'x' to be a tensor \(got list\)"),
    ("x int", (X.long(), FEATURE), TypeError, r"'x' of a floating.*got torch.int64"),
    ("x flat", (X[:, 0], FEATURE), ValueError, r"'x' of shape \[10, 4\] \(got \[10\]\)"),
    ("x channels", (X[:, :3], FEATURE), ValueError, r"'x' of shape \[10, 4\] \(got \[10, 3\]\)"),
    ("x short", (X[:9], FEATURE), ValueError, r"'x' of shape \[10, 4\], one row.*got \[9, 4\]"),
    ("x device", (X.to("meta"), FEATURE), ValueError, r"'x' on cpu .*got meta"),
    ("feature list", (X, 1.0), TypeError, r"'feature' to be a tensor \(got float\)"),
    ("feature none", (X, None), TypeError, r"'feature' to be a tensor \(got NoneType\)"),
    (
        "feature dim",
        (X, FEATURE[:, :2]),
        ValueError,
        r"'feature' of shape \[N, 3\] .*got \[10, 2\]",
    ),
    ("feature int", (X, FEATURE.long()), TypeError, r"'feature' of a floating.*torch.int64"),
    ("feature nan", (X, FEATURE / 0 * 0), ValueError, r"finite 'feature' \(got nan in row 0"),
    ("three", (X, (FEATURE,) * 3), ValueError, r"'feature' to be a pair.*got 3 items"),
    ("dst", (X, (FEATURE, X)), ValueError, r"'feature_dst' of shape \[N, 3\] .*got \[10, 4\]"),
    ("batch pair", (X, FEATURE, (ZERO, ZERO)), ValueError, r"'batch' to be one tensor.*got a pair"),
    ("batch one", (X, (FEATURE,) * 2, ZERO), ValueError, r"'batch' to be a pair.*got Tensor"),
    ("batch short", (X, FEATURE, ZERO[:3]), ValueError, r"'batch' of shape \[10\].*got \[3\]"),
    ("batch int32", (X, FEATURE, ZERO.int()), TypeError, r"'batch' .*int64.*got torch.int32"),
    ("lattice type", (X, FEATURE, None, 3), TypeError, r"'lattice' to be a Lattice \(got int\)"),
    (
        "lattice dim",
        (X, FEATURE, None, Lattice.build(X)),
        ValueError,
        r"'lattice' of dim=3 \(got one of dim=4\)",
    ),
    ("lattice", (X, FEATURE, None, NINE), ValueError, r"the 10 points of 'feature' .*of 9 points"),
    ("lattice x", (X, None, None, NINE), ValueError, r"'x' of shape \[9, 4\].*got \[10, 4\]"),
    (
        "lattice alone",
        (X, (FEATURE, FEATURE), None, LATTICE),
        ValueError,
        r"'lattice' to be a pair.*got a Lattice",
    ),
    ("at", (X, None, None, (LATTICE, 1)), TypeError, r"'at' to be an Incidence \(got int\)"),
    (
        "at other",
        (X, None, None, (LATTICE, Lattice.build(FEATURE * 9).incidence)),
        ValueError,
        r"'at' on the lattice of",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in CALLS]
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=f"^BilateralConv: Expected.*{message}") as caught:
        BilateralConv(4, 8, dim=3)(*arguments)
    assert "\n" not in str(caught.value)


def test_errors_of_the_scale():
    layer = BilateralConv(4, 8, dim=3, learn_scale=True)
    with pytest.raises(ValueError, match=r"^BilateralConv: Expected no 'lattice' with learn_scale"):
        layer(X, FEATURE, None, LATTICE)
    with pytest.raises(ValueError, match=r"on cpu like the parameter .*got meta"):
        layer(X.to("meta"), FEATURE.to("meta"))


OPTION_ERRORS = [
    ({"dim": 0}, r"'dim' .*\(got 0\)"),
    ({"in_channels": 0}, r"'in_channels' .*\(got 0\)"),
    ({"out_channels": 0}, r"'out_channels' .*\(got 0\)"),
    ({"radius": -1}, r"'radius' .*\(got -1\)"),
    ({"radius": 1.5}, r"'radius' .*\(got 1.5\)"),
    ({"dilation": 0}, r"'dilation' .*\(got 0\)"),
    ({"groups": 0}, r"'groups' .*\(got 0\)"),
    ({"groups": 3}, r"'groups' to divide the 4 input channels \(got 3\)"),
    ({"groups": 4, "out_channels": 6}, r"'groups' to divide the 6 output channels \(got 4\)"),
    ({"shared": True}, r"'out_channels' equal to the 4 input channels.*got 8"),
    ({"stencil": "star"}, r"'stencil' to be 'full' or 'axis' \(got 'star'\)"),
    ({"normalize": "both"}, r"'normalize' to be None, .* or 'symmetric' \(got 'both'\)"),
    ({"normalize": True}, r"'normalize' to be None, .* or 'symmetric' \(got True\)"),
    ({"init": "zero"}, r"'init' to be 'gaussian' or 'kaiming' \(got 'zero'\)"),
]


@pytest.mark.parametrize(("options", "message"), OPTION_ERRORS, ids=lambda item: str(item)[:30])
def test_errors_of_options(options, message):
    with pytest.raises((TypeError, ValueError), match=f"^BilateralConv: Expected {message}"):
        BilateralConv(**{"in_channels": 4, "out_channels": 8, "dim": 3, **options})


def test_lattice_of_other_points():
    """Of the same number, so that only their places tell."""
    feature = torch.rand(50, 2, dtype=torch.float64) * 5
    conv = BilateralConv(3, 4, dim=2).double()
    x = torch.rand(50, 3, dtype=torch.float64)
    lattice = Lattice.build(feature)
    assert torch.equal(conv(x, feature.clone(), lattice=lattice), conv(x, feature))
    moved = feature.clone()
    moved[7] += 1
    with pytest.raises(ValueError, match=r"BilateralConv: .*'lattice' .*'feature' .*row 7 is"):
        conv(x, moved, lattice=lattice)


def test_lattice_of_other_output_points():
    src, dst = torch.rand(50, 2) * 5, torch.rand(20, 2) * 5
    conv, x = BilateralConv(3, 4, dim=2), torch.rand(50, 3)
    points = Lattice.build_bipartite(src, dst)
    expected = conv(x, (src, dst))
    assert torch.equal(conv(x, (src.clone(), dst.clone()), None, points), expected)
    moved = dst.clone()
    moved[7] += 1
    with pytest.raises(ValueError, match=r"BilateralConv: .*'at' .*'feature' .*row 7 is"):
        conv(x, (src, moved), None, points)
    with pytest.raises(ValueError, match=r"BilateralConv: .*'at' .*the 19 points.*of 20 points"):
        conv(x, (src, dst[:19]), None, points)
    lattice, _ = points
    located = lattice.locate(moved)  # of points that the lattice was not built over
    assert conv(x, (src, moved), None, (lattice, located)).shape == (20, 4)


def test_lattice_of_other_graphs():
    feature, x = torch.rand(50, 2) * 5, torch.rand(50, 3)
    batch = torch.arange(50) // 25
    conv = BilateralConv(3, 4, dim=2)
    lattice = Lattice.build(feature, batch)
    assert torch.equal(conv(x, feature, batch.clone(), lattice), conv(x, feature, batch))
    message = r"BilateralConv: .*'lattice' built with the graphs of 'batch' \(got one whose row "
    other = batch.clone()
    other[3] = 1
    with pytest.raises(ValueError, match=message + r"3 is in graph 0 instead of 1\)"):
        conv(x, feature, other, lattice)
    with pytest.raises(ValueError, match=message + r"25 is in graph 0 instead of 1\)"):
        conv(x, feature, batch, Lattice.build(feature))
    # Without a batch vector there is one graph, whatever its number.
    one = torch.full((50,), 4)
    assert conv(x, feature, one, Lattice.build(feature)).isfinite().all()
