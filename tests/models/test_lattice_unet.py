import sys

import pytest
import torch

from permutogeo.benchmarks.steps import calls_of
from permutogeo.datasets import StreetScenes
from permutogeo.models import LatticeUNet

DOUBLE = torch.float64


def test_graph_output():
    x, feature = torch.randn(60, 4), 2 * torch.randn(60, 3)
    model = LatticeUNet(4, 8, 5, dim=3, depth=1, task="graph")
    assert model(x, feature).shape == (1, 5)
    assert model(x, feature, torch.arange(60) % 4).shape == (4, 5)


@pytest.mark.parametrize("pool", ["mean", "sum", "learned"])
def test_poolings(pool):
    x, feature = torch.randn(60, 4), 2 * torch.randn(60, 3)
    assert LatticeUNet(4, 8, 5, dim=3, pool=pool)(x, feature).shape == (60, 5)


def test_a_unet_of_one_level():
    x, feature = torch.randn(60, 4), 2 * torch.randn(60, 3)
    assert LatticeUNet(4, 8, 5, dim=3, depth=0)(x, feature).shape == (60, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LatticeUNet(3, 8, 5, 3, depth=-1), "LatticeUNet: Expected 'depth'"),
        (lambda: LatticeUNet(3, 8, 5, 3, task="edge"), "LatticeUNet: Expected 'task'"),
        (lambda: LatticeUNet(3, 8, 5, 3, pool="min"), "LatticePool: Expected 'aggr'"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_context_of_a_single_graph_is_learned():
    """Batch norm would cancel what all points of the batch share, and with it its gradient."""
    x, feature = torch.randn(60, 4, dtype=DOUBLE), 2 * torch.randn(60, 3, dtype=DOUBLE)
    model = LatticeUNet(4, 8, 5, dim=3, depth=1, context=True).double()
    model(x, feature)[:, 0].sum().backward()
    seen = model.predict.lins[0].weight.grad[:, 16:]
    assert seen.shape[1] == 2 * model.width[-1] and seen.abs().max() > 1e-3


def test_shipped_weights_label_streets():
    scene = StreetScenes(1, "test", 20_000, seed=7)[0]
    with torch.no_grad():
        label = LatticeUNet.from_pretrained("streets")(scene.x, scene.pos).argmax(1)
    assert (label == scene.y).float().mean() > 0.97


def test_python_calls_of_a_training_step(monkeypatch):
    """Counted by cProfile, as in ``permutogeo bench steps``: small steps are bound by them."""
    # After a transform of torch.func, arguments are looked at one by one.
    monkeypatch.setattr(sys.modules["permutogeo.ops._library"], "_may_be_wrapped", False)
    generator = torch.Generator().manual_seed(0)
    feature = torch.nn.functional.normalize(torch.randn(64, 3, generator=generator)) * 2.8
    x, model = torch.rand(64, 16, generator=generator), LatticeUNet(16, 16, 16, 3, depth=2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        model(x, feature).square().mean().backward()
        optimizer.step()

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        step()
        assert calls_of(step) < 3000
    finally:
        torch.set_num_threads(before)
