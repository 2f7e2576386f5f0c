import pytest
import torch

from permutogeo.nn import Compatibility


def test_str():
    assert str(Compatibility(4)) == "Compatibility(4, 'potts')"
    assert str(Compatibility(4, "full", learn=True)) == "Compatibility(4, 'full', learn=True)"


@pytest.mark.parametrize("kind", ["potts", "diagonal", "full", "low_rank"])
def test_starts_as_potts(kind):
    for learn in (False, True):
        torch.testing.assert_close(Compatibility(3, kind, learn).matrix(), -torch.eye(3))


@pytest.mark.parametrize("value", [2.5, torch.tensor([1.0, -2.0, 3.0]), torch.randn(3, 3)])
def test_values(value):
    as_matrix = [lambda v: -v * torch.eye(3), torch.diag, lambda v: v]
    given = torch.as_tensor(value)
    expected = as_matrix[given.dim()](given)
    torch.testing.assert_close(Compatibility(3, value).matrix(), expected)
    message = torch.randn(5, 3)
    torch.testing.assert_close(Compatibility(3, value)(message), message @ expected)


def test_attraction_is_minus_what_is_taken():
    message = torch.randn(5, 3)
    for kind in ("potts", 2.0, torch.randn(3, 3), "low_rank"):
        layer = Compatibility(3, kind, learn=True)
        torch.testing.assert_close(layer.attraction(message), -layer(message))
    assert Compatibility(3).attraction(message) is message


def test_learns_what_it_has():
    counts = {"potts": 1, "diagonal": 6, "full": 36, "low_rank": 2 * 6 * 2}
    for kind, count in counts.items():
        fixed, learned = (Compatibility(6, kind, learn, rank=2) for learn in (False, True))
        assert sum(p.numel() for p in fixed.parameters()) == 0
        assert sum(p.numel() for p in learned.parameters()) == count
        learned(torch.randn(4, 6)).square().sum().backward()
        assert all(p.grad is not None for p in learned.parameters())


def test_reset():
    layer = Compatibility(3, torch.randn(3, 3), learn=True)
    before = layer.matrix().detach().clone()
    torch.nn.init.zeros_(layer.value)
    layer.reset_parameters()
    assert torch.equal(layer.matrix(), before)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("pots", r"'kind' to be 'potts', 'diagonal', 'full' or 'low_rank' \(got 'pots'\)"),
        (torch.ones(4), r"shape \[\], \[3\] or \[3, 3\] for 3 labels \(got \[4\]\)"),
        (torch.ones(3, 2), r"\[3, 3\] for 3 labels \(got \[3, 2\]\)"),
        (float("nan"), r"finite compatibilities \(got nan\)"),
    ],
)
def test_errors(value, message):
    with pytest.raises(ValueError, match=f"^Compatibility: .*{message}"):
        Compatibility(3, value)


@pytest.mark.parametrize("kind", ["potts", "diagonal", "full", "low_rank", 2.0])
def test_meta_device_and_reset(kind):
    with torch.device("meta"):
        layer = Compatibility(3, kind, learn=True)
    assert layer.value.is_meta
    layer.to_empty(device="cpu").reset_parameters()
    expected = -float(kind) if isinstance(kind, float) else -1.0
    torch.testing.assert_close(layer.matrix(), expected * torch.eye(3))


def test_scalars_of_earlier_state_dicts():
    """Potts was of shape []; FSDP2 does not shard scalars."""
    layer = Compatibility(3, learn=True)
    assert layer.value.shape == (1,)
    old = {"value": torch.tensor(-2.0)}
    layer.load_state_dict(old)
    assert layer.value.item() == -2 and old["value"].dim() == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (2.5, 2.5),
        ("full", 1.0),
        (3.0 * (1 - torch.eye(4)), 3.0),
        (2.0 - 5.0 * torch.eye(4), 5.0),
        (torch.tensor([[7.0]]), 0.0),
        ("diagonal", None),
        (torch.arange(16.0).view(4, 4), None),
    ],
)
def test_scale_of_the_attraction_up_to_a_shared_number(kind, expected):
    classes = 1 if isinstance(kind, torch.Tensor) and kind.numel() == 1 else 4
    compatibility = Compatibility(classes, kind)
    assert compatibility.scale() == expected
    if expected is not None:
        message = torch.rand(5, classes)
        left, right = compatibility.attraction(message), expected * message
        torch.testing.assert_close(left.softmax(1), right.softmax(1))
