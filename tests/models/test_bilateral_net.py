import numpy as np
import pytest
import torch
from torch.nn import functional

from permutogeo.datasets import Tiles
from permutogeo.models import BilateralNet
from permutogeo.testing.reference import ReferenceLattice
from permutogeo.train import confusion, scores
from permutogeo.transforms import BilateralFeature

DOUBLE = torch.float64


def stack(hidden=(6, 4), **options):
    return BilateralNet(3, hidden, 2, dim=2, plain=True, init="kaiming", **options)


def test_a_plain_stack_is_its_convolutions(reference):
    response, normalizer = reference
    model = stack().double()
    x, feature = torch.rand(40, 3, dtype=DOUBLE), 4 * torch.rand(40, 2, dtype=DOUBLE)
    lattice = ReferenceLattice(feature.numpy())
    wanted = x.numpy()
    for i, conv in enumerate(model.convs):
        weight, bias = (p.detach().numpy() for p in (conv.filter_weight, conv.bias))
        norm = normalizer(lattice, np.ones((40, 1)))
        wanted = response(lattice, wanted, weight) / norm + bias
        wanted = np.maximum(wanted, 0) if i < 2 else wanted
    np.testing.assert_allclose(model(x, feature).detach(), wanted, rtol=1e-9, atol=1e-12)


def test_start_of_a_plain_stack():
    """Taps that are averaged do not add to the fan; the authors' filler is a normal of its own."""
    torch.manual_seed(0)
    model = BilateralNet(3, (32, 16), 2, dim=5, plain=True, init="kaiming")
    for conv, fan in zip(model.convs, (3, 32, 16), strict=True):
        assert float(conv.filter_weight.detach().std()) == pytest.approx((2 / fan) ** 0.5, rel=0.05)
    filled = BilateralNet(3, (32, 16), 2, dim=5, plain=True, filler=0.001)
    assert float(filled.convs[1].filter_weight.detach().std()) == pytest.approx(0.001, rel=0.05)


def tile_scores(model, count=6):
    tiles = Tiles(count, "test", transform=BilateralFeature(pos=20.0, rgb=0.1))
    with torch.no_grad():
        tables = [confusion(model(d.x, d.feature).argmax(1), d.y, 2) for d in tiles]
    return scores(sum(tables))["mean_iou"]


def test_pretrained_tiles():
    model = BilateralNet.from_pretrained("tiles")
    assert tile_scores(model) > 0.98


def test_few_steps_find_tiles():
    torch.manual_seed(0)
    model = BilateralNet(3, (32, 16), 2, dim=5, plain=True, init="kaiming")
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0, momentum=0.9)
    tiles = Tiles(70, transform=BilateralFeature(pos=20.0, rgb=0.1))
    assert tile_scores(model) < 0.6
    for first in range(0, 70, 2):
        pair = [tiles[first], tiles[first + 1]]
        x, feature, y = (torch.cat([d[name] for d in pair]) for name in ("x", "feature", "y"))
        batch = torch.arange(2).repeat_interleave(4096)
        optimizer.zero_grad()
        functional.cross_entropy(model(x, feature, batch), y).backward()
        optimizer.step()
    assert tile_scores(model) > 0.8


def test_sizes_of_the_paper():
    model = BilateralNet(3, (32, 16), 2, dim=5, plain=True)
    assert sum(p.numel() for p in model.parameters()) == 63 * (96 + 512 + 32) + 50
    assert str(model) == "BilateralNet(3, (32, 16), 2, dim=5, num_layers=3, radius=1, plain=True)"
    assert len(stack(8).convs) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: stack((6,)), "BilateralNet: Expected 'hidden_channels' of 2 sizes"),
        (lambda: stack((6, 0)), "BilateralNet: Expected 'hidden_channels'"),
        (lambda: BilateralNet(-1, 8, 2, 2, plain=True), "Expected 'in_channels' of 1 or more"),
        (lambda: stack(task="graph"), "Expected task='point' without context with plain=True"),
        (lambda: stack(context=True), "Expected task='point' without context with plain=True"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
