"""Errors for bad input: each names the argument, the expected and the actual value."""

import pytest
import torch

from permutogeo import Lattice

DOUBLE = torch.float64


F = torch.rand(10, 3)
ZERO = torch.zeros(10, dtype=torch.int64)


def with_entry(row, column, value):
    feature = F.clone()
    feature[row, column] = value
    return feature


def batch_with(**entries):
    batch = ZERO.clone()
    for row, graph in entries.items():
        batch[int(row[1:])] = graph
    return batch


BAD_POINTS = [
    ("list", [[1.0]], None, TypeError, r"'feature' to be a tensor \(got list\)"),
    ("flat", F[0], None, ValueError, r"'feature' of shape \[N, d\] \(got \[3\]\)"),
    ("cube", F[None], None, ValueError, r"'feature' of shape \[N, d\] \(got \[1, 10, 3\]\)"),
    ("no dim", F[:, :0], None, ValueError, r"'feature' of shape \[N, d\] \(got \[10, 0\]\)"),
    ("int", F.long(), None, TypeError, r"'feature' of a floating-point type \(got torch.int64\)"),
    ("nan", with_entry(4, 1, torch.nan), None, ValueError, r"'feature' \(got nan in row 4, c"),
    ("inf", with_entry(7, 0, torch.inf), None, ValueError, r"'feature' \(got inf in row 7, c"),
    ("-inf", with_entry(0, 2, -torch.inf), None, ValueError, r"'feature' \(got -inf in row 0"),
    ("large", with_entry(3, 2, 3e9), None, ValueError, r"'feature'.* 32 bits \(got .* in row 3"),
    ("larger", with_entry(3, 2, -3e38), None, ValueError, r"'feature'.* 32 bits .* row 3"),
    (
        "largest",
        with_entry(3, 2, 1).double() * 1.7e308,
        None,
        ValueError,
        r"'feature'.* 32 bits .* row \d",
    ),
    ("batch list", F, [0] * 10, TypeError, r"'batch' to be an int64 tensor \(got list\)"),
    ("batch int32", F, ZERO.int(), TypeError, r"'batch' .*int64 tensor \(got torch.int32\)"),
    ("batch short", F, ZERO[:9], ValueError, r"'batch' of shape \[10\].* \(got \[9\]\)"),
    ("batch square", F, ZERO[:, None], ValueError, r"'batch' of shape \[10\].* \(got \[10, 1\]\)"),
    (
        "batch device",
        F,
        ZERO.to("meta"),
        ValueError,
        r"'batch' on the device of 'feature', cpu \(got meta\)",
    ),
    ("negative", F, batch_with(r6=-1), ValueError, r"'batch' .*negative.* \(got -1 in row 6\)"),
    (
        "first negative",
        F,
        batch_with(r3=-1, r6=-5),
        ValueError,
        r"'batch' .*negative.* \(got -1 in row 3\)",
    ),
]


@pytest.mark.parametrize(
    ("feature", "batch", "error", "message"),
    [pytest.param(*rest, id=name) for name, *rest in BAD_POINTS],
)
@pytest.mark.parametrize("where", ["build", "locate", "src", "dst"])
def test_bad_points(where, feature, batch, error, message):
    lattice = Lattice.build(F, None if batch is None else ZERO)
    if where in ("src", "dst"):
        message = message.replace("'feature'", f"'feature_{where}'")
        message = message.replace("'batch'", f"'batch_{where}'")
    double = isinstance(feature, torch.Tensor) and feature.dtype == DOUBLE
    good = F.double() if double else F, None if batch is None else ZERO
    with pytest.raises(error, match=message):
        if where == "build":
            Lattice.build(feature, batch)
        elif where == "locate":
            lattice.locate(feature, batch)
        elif where == "src":
            Lattice.build_bipartite(feature, good[0], batch, good[1])
        else:
            Lattice.build_bipartite(good[0], feature, good[1], batch)


def test_more_graphs_than_can_be_numbered():
    with pytest.raises(ValueError, match=r"'batch'.*9223372036854775807.*row 2"):
        Lattice.build(F, batch_with(r2=2**63 - 1))


def test_unsorted_batches_are_legal(cloud):
    feature, _ = cloud(6)
    batch = torch.tensor([2, 0, 1, 0, 2, 0])
    lattice = Lattice.build(feature, batch)
    order = batch.argsort(stable=True)
    ordered = Lattice.build(feature[order], batch[order])
    assert torch.equal(lattice.key, ordered.key)
    assert torch.equal(lattice.vertex[order], ordered.vertex)


ERRORS = [
    (
        "dims differ",
        lambda lattice: lattice.locate(torch.rand(4, 2)),
        ValueError,
        r"'feature' of shape \[N, 3\].* \(got \[4, 2\]\)",
    ),
    (
        "bipartite dims differ",
        lambda lattice: Lattice.build_bipartite(F, torch.rand(4, 2)),
        ValueError,
        r"'feature_dst' of shape \[N, 3\].* \(got \[4, 2\]\)",
    ),
    (
        "one batch",
        lambda lattice: Lattice.build_bipartite(F, F, batch_src=ZERO),
        ValueError,
        r"both 'batch_src' and 'batch_dst', or neither \(no 'batch_dst'\)",
    ),
    (
        "device",
        lambda lattice: lattice.locate(F.to("meta")),
        ValueError,
        r"'feature' on cpu \(got meta\)",
    ),
    (
        "no data",
        lambda lattice: Lattice.build(F.to("meta")),
        ValueError,
        r"'feature' with data to build a lattice from \(got meta\)",
    ),
    (
        "at device",
        lambda lattice: lattice.slice(
            torch.rand(lattice.num_vertices, 1), at=lattice.locate(F).to("meta")
        ),
        ValueError,
        r"'at' on cpu like the lattice \(got meta\)",
    ),
    (
        "taps even",
        lambda lattice: Lattice.build(F, taps=[1, 1]),
        ValueError,
        r"'taps' of odd length.* \(got \[1.0, 1.0\]\)",
    ),
    ("taps none", lambda lattice: Lattice.build(F, taps=[]), ValueError, r"'taps'.*got \[\]"),
    ("taps askew", lambda lattice: Lattice.build(F, taps=[1, 2, 3]), ValueError, "'taps'.*symm"),
    ("taps below 0", lambda lattice: Lattice.build(F, taps=[-1, 4, -1]), ValueError, "'taps'"),
    ("taps nan", lambda lattice: Lattice.build(F, taps=[torch.nan]), ValueError, "'taps'"),
    (
        "taps inf",
        lambda lattice: Lattice.build(F, taps=[1, torch.inf, 1]),
        ValueError,
        "'taps'",
    ),
    (
        "radius",
        lambda lattice: lattice.neighbors(-1),
        ValueError,
        r"'radius' of at least 0 \(got -1\)",
    ),
    (
        "radius float",
        lambda lattice: lattice.neighbors(1.5),
        (TypeError, ValueError),
        r"'radius'.*\(got 1.5\)",
    ),
    (
        "dilation",
        lambda lattice: lattice.neighbors(dilation=0),
        ValueError,
        r"'dilation' of at least 1 \(got 0\)",
    ),
    (
        "stencil",
        lambda lattice: lattice.neighbors(stencil="cross"),
        ValueError,
        r"'stencil' to be 'full' or 'axis' \(got 'cross'\)",
    ),
    (
        "stencil too large",
        lambda lattice: lattice.neighbors(10_000),
        ValueError,
        r"4000600040001 taps.*stencil='axis'",
    ),
    (
        "values rows",
        lambda lattice: lattice.blur(torch.rand(3, 2)),
        ValueError,
        r"'values' of shape \[\d+, C\].*vertices \(got \[3, 2\]\)",
    ),
    (
        "values type",
        lambda lattice: lattice.blur(torch.ones(lattice.num_vertices, 2, dtype=torch.int32)),
        TypeError,
        r"'values' of a floating-point type \(got torch.int32\)",
    ),
    (
        "values of convolve",
        lambda lattice: lattice.convolve(torch.rand(3, 2), torch.rand(15, 2, 2)),
        ValueError,
        r"'values' of shape .*\(got \[3, 2\]\)",
    ),
    (
        "at",
        lambda lattice: lattice.slice(torch.rand(lattice.num_vertices, 1), at=F),
        TypeError,
        r"'at' to be an Incidence \(got Tensor\)",
    ),
    (
        "at elsewhere",
        lambda lattice: lattice.slice(
            torch.rand(lattice.num_vertices, 1), at=Lattice.build(F * 100).locate(F)
        ),
        ValueError,
        r"'at' on the lattice of \d+ vertices \(got one on a lattice of \d+\)",
    ),
]

BAD_FILTERS = [
    ("taps", torch.rand(7, 4, 4), {}, ValueError, r"\[15, 4, C_out\] \(got \[7, 4, 4\]\)"),
    ("channels", torch.rand(15, 3, 4), {}, ValueError, r"\[15, 4, C_out\] \(got \[15, 3, 4\]\)"),
    ("flat", torch.rand(15), {}, ValueError, r"\[15, 4, C_out\] \(got \[15\]\)"),
    ("shared", torch.rand(15, 4, 4), {"shared": True}, ValueError, r"\[15\] \(got \[15, 4, 4\]\)"),
    ("axis", torch.rand(15, 4, 4), {"stencil": "axis"}, ValueError, r"\[9, 4, C_out\] \(got"),
    ("radius", torch.rand(15, 4, 4), {"radius": 2}, ValueError, r"\[65, 4, C_out\] \(got"),
    ("type", torch.ones(15, 4, 4).long(), {}, TypeError, r"floating-point.*\(got torch.int64\)"),
    ("list", [1.0], {}, TypeError, r"floating-point tensor \(got list\)"),
    ("device", torch.rand(15, 4, 4).to("meta"), {}, ValueError, r"on cpu \(got meta\)"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in ERRORS]
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(Lattice.build(F))


@pytest.mark.parametrize(
    ("bank", "options", "error", "message"),
    [pytest.param(*rest, id=name) for name, *rest in BAD_FILTERS],
)
def test_bad_filters(bank, options, error, message):
    lattice = Lattice.build(F)
    with pytest.raises(error, match=f"'filter_weight' .*{message}"):
        lattice.convolve(torch.rand(lattice.num_vertices, 4), bank, **options)


@pytest.mark.parametrize(
    ("groups", "out", "message"),
    [(3, 3, r"the 4 channels \(got 3\)"), (0, 4, r"\(got 0\)"), (2, 3, r"the 3 output .*got 2")],
)
def test_bad_groups(groups, out, message):
    lattice = Lattice.build(F)
    bank = torch.rand(15, 4 // max(groups, 1), out)
    with pytest.raises(ValueError, match=f"'groups' to divide.* {message}|'groups'.*{message}"):
        lattice.convolve(torch.rand(lattice.num_vertices, 4), bank, groups=groups)


def test_a_lattice_without_data_has_a_representation():
    lattice = Lattice.build(F, ZERO).to("meta")
    assert repr(lattice).endswith("device=meta)")
