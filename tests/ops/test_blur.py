import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.testing.reference import ReferenceLattice

GAUSSIAN = [0.5, 1.0, 0.5]
WIDE = [0.1, 0.6, 1.0, 0.6, 0.1]


def arguments(found, channels, taps=GAUSSIAN, reverse=False, dtype=torch.float64):
    lattice = found.lattice
    neighbors = lattice.neighbors(len(taps) // 2, 1, "axis")
    values = torch.randn(lattice.num_vertices, channels, dtype=dtype)
    return values, neighbors, lattice.dim, taps, reverse


def test_reference(case, check, dim, dtype, channels):
    found = case(dim, dtype)
    args = arguments(found, channels, dtype=dtype)
    expected = found.reference.blur(found.in_reference(args[0]))
    check.close(ops.blur(*args), found.from_reference(expected))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("taps", [[1.0], GAUSSIAN, WIDE])
@pytest.mark.parametrize("dim", [1, 2, 5, 16])
def test_reference_of_taps_and_order(case, check, dim, taps, reverse):
    found = case(dim)
    args = arguments(found, 3, taps, reverse)
    expected = found.reference.blur(found.in_reference(args[0]), taps, reverse)
    check.close(ops.blur(*args), found.from_reference(expected))


def test_reference_on_a_lattice_made_for_the_taps(check):
    """Other taps have another variance, which scales the lattice."""
    feature = torch.randn(50, 3, dtype=torch.float64)
    lattice = Lattice.build(feature, taps=WIDE)
    variance = (2 * 0.1 * 4 + 2 * 0.6) / sum(WIDE)
    reference = ReferenceLattice(feature.numpy(), tap_variance=variance)
    x = torch.randn(50, 2, dtype=torch.float64)
    expected = reference.slice(reference.blur(reference.splat(x), WIDE))
    check.close(lattice.slice(lattice.blur(lattice.splat(x))), expected)


def test_adjoint(case, check, dim):
    found = case(dim)
    values, *rest, _ = arguments(found, 3)
    check.adjoint(
        lambda x: ops.blur(x, *rest, False),
        values,
        lambda y: ops.blur(y, *rest, True),
        torch.randn_like(values),
    )


@pytest.mark.parametrize("taps", [GAUSSIAN, WIDE])
def test_gradients(case, check, taps):
    values, *rest = arguments(case(2, num_points=6), 2, taps)
    check.gradients(lambda values: ops.blur(values, *rest), values)


def test_opcheck(case, check):
    values, *rest = arguments(case(3), 5)
    check.registered(
        torch.ops.permutogeo.blur.default,
        (values, *rest),
        (values.clone().requires_grad_(), *rest),
        (values.float(), *rest),
        arguments(case(2), 3, WIDE, True),
        (values[:, :0], *rest),
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_compile(case, check, reverse):
    values, *rest = arguments(case(3), 5, reverse=reverse)
    check.compiles(lambda values: ops.blur(values, *rest), values)


def test_empty():
    neighbors = torch.empty(0, 7, dtype=torch.int32)
    assert ops.blur(torch.empty(0, 4), neighbors, 2, GAUSSIAN, False).shape == (0, 4)


def test_no_channels(case):
    args = arguments(case(3), 0)
    assert ops.blur(*args).shape == args[0].shape


def test_layouts(case, check):
    check.layouts(ops.blur, *arguments(case(3), 21))


def test_unchanged(case, check):
    check.unchanged(ops.blur, *arguments(case(3), 21))
    check.unchanged(ops.blur, *arguments(case(2), 4, [1.0]))


def test_isolated_vertices_get_no_more_than_their_share(case_of, check):
    """Absent neighbors count 0: they do not hand their weight to the centre."""
    found = case_of(torch.tensor([[0.2, 0.1], [1e3, -1e3], [5.0, 70.0]], dtype=torch.float64))
    args = arguments(found, 3)
    expected = found.reference.blur(found.in_reference(args[0]))
    check.close(ops.blur(*args), found.from_reference(expected))


def test_errors(case):
    lattice = case(2).lattice
    count = lattice.num_vertices
    with pytest.raises(ValueError, match=rf"Expected 'values' of shape \[{count}, C\].*got \[3, 2"):
        lattice.blur(torch.zeros(3, 2))
    with pytest.raises(TypeError, match=r"Expected 'values' of a floating-point type .*int64"):
        lattice.blur(torch.zeros(count, 2, dtype=torch.int64))
    for taps in ([1.0, 1.0], [1.0, 2.0, 3.0], [-1.0, 1.0, -1.0], []):
        with pytest.raises(ValueError, match="Expected 'taps' of odd length, symmetric"):
            Lattice.build(torch.zeros(1, 2), taps=taps)
