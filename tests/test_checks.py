"""Checks of arguments: what passes, and the one-line errors."""

import pytest
import torch

from permutogeo import checks

X = torch.rand(4, 2)
CPU = torch.device("cpu")


class Layer:
    pass


def test_fail_names_the_owner():
    with pytest.raises(KeyError, match=r"Layer: No"):
        checks.fail(Layer(), "No", KeyError)
    with pytest.raises(ValueError, match=r"^No$"):
        checks.fail(None, "No")


def test_prefix_errors():
    def refuse(word):
        raise TypeError(word)

    assert checks.prefix_errors(Layer(), int, "3") == 3
    with pytest.raises(TypeError, match=r"^Layer: bad$"):
        checks.prefix_errors(Layer(), refuse, "bad")
    with pytest.raises(TypeError, match=r"^bad$"):
        checks.prefix_errors(None, refuse, "bad")


BAD = [
    (checks.check_integer, ("n", 1.0), TypeError, "Expected 'n' to be an integer (got 1.0)"),
    (checks.check_integer, ("n", True), TypeError, "Expected 'n' to be an integer (got True)"),
    (checks.check_integer, ("n", 0), ValueError, "Expected 'n' of at least 1 (got 0)"),
    (
        checks.check_integer,
        ("n", 2**21),
        ValueError,
        "Expected 'n' of at most 1048576 (got 2097152)",
    ),
    (
        checks.check_choice,
        ("c", 1, (True, "a")),
        ValueError,
        "Expected 'c' to be True or 'a' (got 1)",
    ),
    (
        checks.check_finite,
        ("x", X / 0),
        ValueError,
        "Expected finite 'x' (got [inf, inf] in row 0)",
    ),
]


@pytest.mark.parametrize(("check", "arguments", "error", "message"), BAD)
def test_errors(check, arguments, error, message):
    with pytest.raises(error) as caught:
        check(Layer(), *arguments)
    assert str(caught.value) == f"Layer: {message}"


BAD_MATRICES = [
    ([1.0], {}, TypeError, "Expected 'x' to be a tensor (got list)"),
    (X[0], {}, ValueError, "Expected 'x' of shape [N, C] (got [2])"),
    (X, {"channels": 3}, ValueError, "Expected 'x' of shape [N, 3] (got [4, 2])"),
    (X.long(), {}, TypeError, "Expected 'x' of a floating-point type (got torch.int64)"),
]


@pytest.mark.parametrize(("x", "options", "error", "message"), BAD_MATRICES)
def test_check_matrix(x, options, error, message):
    checks.check_matrix(None, "x", X, device=CPU, rows=4, channels=2)
    with pytest.raises(error) as caught:
        checks.check_matrix(None, "x", x, device=CPU, **options)
    assert str(caught.value) == message


def test_check_points_returns_single_or_double():
    for dtype, expected in [(torch.float16, torch.float32), (torch.float64, torch.float64)]:
        assert checks.check_points("f", X.to(dtype), "b", None).dtype == expected


@pytest.mark.parametrize("taps", [(0.5, 1.0), (0.5, 1.0, 0.4), (-0.5, 1.0, -0.5), (0.0,), (1e400,)])
def test_check_taps(taps):
    assert checks.check_taps([0.5, 1, 0.5]) == (0.5, 1.0, 0.5)
    with pytest.raises(ValueError, match=r"^Expected 'taps' of odd length, symmetric, finite"):
        checks.check_taps(taps)


@pytest.mark.parametrize("size", [1e-200, 1e-7, 1e7, 1e200])
def test_check_taps_of_extreme_size(size):
    assert checks.check_taps([1e-200, 1, 1e-200])
    with pytest.raises(ValueError, match=r"^Expected 'taps' of which the largest is between"):
        checks.check_taps([size, size, size])


def test_check_graph_ids():
    assert checks.check_graph_ids("batch", torch.tensor([0, 3, 1])) == 4
    with pytest.raises(
        ValueError, match=r"^Expected 'batch' without negative entries \(got -2 in row 1"
    ):
        checks.check_graph_ids("batch", torch.tensor([0, -2]))


def test_check_pair():
    assert checks.check_pair("f", [1, 2]) == (1, 2)
    with pytest.raises(
        ValueError, match=r"to be a pair, for input and output points \(got 3 items\)"
    ):
        checks.check_pair("f", (1, 2, 3))


def test_every_parameter_is_compared():
    """Also those of layers inside, where the first ones are on the right device."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 3, device="meta"))
    with pytest.raises(ValueError, match="Sequential: "):
        checks.check_parameters(module, X)
    checks.check_parameters(module[0], X)
