"""The networks of the paper's section 5: a plain stack, bilateral first layers, and one that stays
sparse."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional
from torch_geometric.data import Batch

from permutogeo import weights
from permutogeo.datasets import Assamese, SparseMNIST, Tiles
from permutogeo.models import BilateralNet, BNNDeepCNet, BNNLeNet, LatticeCNet
from permutogeo.stencils import gaussian, stencil
from permutogeo.testing.reference import ReferenceLattice
from permutogeo.train import confusion, scores
from permutogeo.transforms import BilateralFeature

DOUBLE = torch.float64


def stack(hidden=(6, 4), **options):
    return BilateralNet(3, hidden, 2, dim=2, plain=True, init="kaiming", **options)


OFFSETS = stencil(2, 1).numpy()


def response(lattice, x, weight):
    """Splat, convolution and slice by the float64 reference."""
    return lattice.slice(lattice.convolve(lattice.splat(x), weight, OFFSETS))


def normalizer(lattice, x):
    """The response of the Gaussian."""
    return response(lattice, x, np.asarray(gaussian(2, 1, "full"), np.float64)[:, None, None])


def test_a_plain_stack_is_its_convolutions():
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


def test_sizes_of_the_paper():
    model = BilateralNet(3, (32, 16), 2, dim=5, plain=True)
    assert sum(p.numel() for p in model.parameters()) == 63 * (96 + 512 + 32) + 50
    assert str(model) == ("BilateralNet(3, (32, 16), 2, dim=5, num_layers=3, radius=1, plain=True)")
    assert len(stack(8).convs) == 3
    count = {
        kind: sum(p.numel() for p in kind(1, 183).parameters()) for kind in (BNNLeNet, BNNDeepCNet)
    }
    # 7 taps, and the other layers of LeNet-7 and DeepCNet(5, 50).
    assert count[BNNLeNet] == 7 * 8 + 8 + 36 * 192 + 24 + 36 * 2400 + 100 + 101 * 183
    other = sum(4 * 50 * n * 50 * (n + 1) + 50 * (n + 1) for n in range(1, 6))
    assert count[BNNDeepCNet] == 7 * 50 + 50 + other + 301 * 183


def test_start_of_a_plain_stack():
    """Taps that are averaged do not add to the fan; the authors' filler is a normal of its own."""
    torch.manual_seed(0)
    model = BilateralNet(3, (32, 16), 2, dim=5, plain=True, init="kaiming")
    for conv, fan in zip(model.convs, (3, 32, 16), strict=True):
        assert float(conv.filter_weight.detach().std()) == pytest.approx((2 / fan) ** 0.5, rel=0.05)
    filled = BilateralNet(3, (32, 16), 2, dim=5, plain=True, filler=0.001)
    assert float(filled.convs[1].filter_weight.detach().std()) == pytest.approx(0.001, rel=0.05)


@pytest.mark.parametrize(
    ("model", "channels"),
    [
        (stack(), 3),
        (BNNLeNet(1, 10, extent=9.0, side=28, radius=2), 1),
        (BNNDeepCNet(1, 5, extent=9.0, depth=2, hidden_channels=4, normalize=None), 1),
        (LatticeCNet(1, 4, 5, dim=2, extent=9.0, depth=2, read=2), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pretrained_by_path(model, channels, tmp_path):
    path, kind = tmp_path / "own.safetensors", type(model)
    model.eval().save_pretrained(path)
    x, feature = torch.rand(30, channels), 9 * torch.rand(30, 2)
    again = kind.from_pretrained(path)
    assert str(again) == str(model) and not again.training
    assert torch.equal(again(x, feature), model(x, feature))
    save_file({"a": torch.zeros(1)}, path, {weights.SETTINGS: json.dumps(model.settings)})
    with pytest.raises(ValueError, match=f"Expected the weights of a {kind.__name__}"):
        kind.from_pretrained(path)


def test_pretrained_without_a_name():
    assert str(BilateralNet.from_pretrained()) == str(BilateralNet.from_pretrained("tiles"))
    with pytest.raises(ValueError, match="BNNDeepCNet: Expected the path"):
        BNNDeepCNet.from_pretrained()


@pytest.mark.parametrize(("kind", "extent", "least"), [(BNNLeNet, 20, 0.5), (LatticeCNet, 48, 0.8)])
def test_pretrained_characters(kind, extent, least, data_dir):
    """On every fifth character of a writer that it was not trained with."""
    model = kind.from_pretrained("assamese")
    feature = BilateralFeature(pos=95 / extent)
    characters = Assamese(data_dir, "test", crop=True, transform=feature)
    batch = Batch.from_data_list([characters[i] for i in range(0, 183, 5)])
    with torch.no_grad():
        found = model(batch.x, batch.feature, batch.batch).argmax(1)
    assert float((found == batch.y).float().mean()) > least
    assert all((weights.FOLDER / f"{n}.safetensors").stat().st_size < 1e6 for n in weights.names())


@pytest.mark.parametrize(("fraction", "least"), [(None, 0.95), (0.6, 0.95), (0.2, 0.8)])
def test_pretrained_digits(fraction, least, data_dir):
    """Trained on samples of 60 %, good for all of the pixels and for fewer samples as well."""
    model = LatticeCNet.from_pretrained("digits")
    feature = BilateralFeature(pos=27 / 20)
    digits = SparseMNIST(data_dir, "test", fraction, seed=0, transform=feature)
    batch = Batch.from_data_list([digits[i] for i in range(0, 10_000, 50)])
    with torch.no_grad():
        found = model(batch.x, batch.feature, batch.batch).argmax(1)
    assert float((found == batch.y).float().mean()) > least


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


def drawings(count=3, extent=20.0, dtype=DOUBLE):
    sizes = torch.tensor([40 + 5 * i for i in range(count)])
    feature = extent * torch.rand(int(sizes.sum()), 2, dtype=dtype)
    return (
        torch.rand(len(feature), 1, dtype=dtype),
        feature,
        torch.arange(count).repeat_interleave(sizes),
    )


NETS = [
    (lambda: BNNLeNet(1, 5, extent=20.0), "BNNLeNet(1, 5, extent=20.0, radius=1)"),
    (
        lambda: BNNLeNet(1, 5, extent=20.0, side=28, radius=2),
        "BNNLeNet(1, 5, extent=20.0, radius=2)",
    ),
    (
        lambda: BNNDeepCNet(1, 5, extent=20.0, depth=2, hidden_channels=4),
        "BNNDeepCNet(1, 5, extent=20.0, radius=1)",
    ),
    (
        lambda: LatticeCNet(1, 6, 5, dim=2, extent=20.0, depth=3),
        "LatticeCNet(1, 6, 5, dim=2, num_layers=1, extent=20.0, depth=3, read=3)",
    ),
]
each_net = pytest.mark.parametrize(
    "make", [m for m, _ in NETS], ids=["lenet7", "lenet", "deepcnet", "cnet"]
)


@pytest.mark.parametrize(("make", "shown"), NETS)
def test_str(make, shown):
    assert str(make()) == shown


@each_net
def test_graphs_do_not_mix(make):
    model = make().double().eval()
    x, feature, batch = drawings()
    together = model(x, feature, batch)
    assert together.shape == (3, 5)
    alone = [model(x[batch == i], feature[batch == i]) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-10, atol=1e-12)


@each_net
def test_order_of_points_is_nothing(make):
    model = make().double().eval()
    x, feature, batch = drawings()
    order = torch.randperm(len(x))
    again = model(x[order], feature[order], batch[order])
    torch.testing.assert_close(again, model(x, feature, batch), rtol=1e-10, atol=1e-12)


@each_net
def test_place_matters_and_all_learn(make):
    model = make().double()
    x, feature, batch = drawings()
    out = model.eval()(x, feature, batch)
    assert not torch.allclose(model(x, feature.flip(1), batch), out)
    functional.cross_entropy(model.train()(x, feature, batch), torch.arange(3)).backward()
    assert all(p.grad is not None and float(p.grad.abs().max()) > 0 for p in model.parameters())


def test_the_first_layer_reads_the_grid():
    """Against the reference, over input and grid together; rows are along the second feature."""
    options = {"depth": 1, "hidden_channels": 3, "normalize": "after"}
    model = BNNDeepCNet(1, 5, extent=20.0, **options).double()
    x, feature, _ = drawings(1)
    place = (np.arange(4) + 1) * 20 / 5
    grid = np.array([[across, down] for down in place for across in place])
    lattice = ReferenceLattice(np.concatenate([feature.numpy(), grid]))
    everything = np.concatenate([x.numpy(), np.zeros((16, 1))])
    conv = model.first.conv
    weight, bias = (p.detach().numpy() for p in (conv.filter_weight, conv.bias))
    is_input = (np.arange(len(everything)) < len(x))[:, None].astype(float)
    norm, out = normalizer(lattice, is_input), response(lattice, everything, weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.where(norm > 0, out / norm, 0.0) + bias
    got = model.first(x, feature, None)[0].detach().numpy()
    np.testing.assert_allclose(got, wanted[-16:].T.reshape(3, 4, 4), rtol=1e-9, atol=1e-12)


def test_far_from_ink_is_nothing():
    """What a first layer that is normalized by its output loses, as ink is 1 everywhere."""
    first = BNNLeNet(1, 5, extent=20.0, side=28).first.double()
    ones, feature = torch.ones(50, 1, dtype=DOUBLE), 5 + torch.rand(50, 2, dtype=DOUBLE)
    out = first(ones, feature, None)[0] - first.conv.bias.view(-1, 1, 1)
    near, far = out[:, 4:7, 4:7].abs().amax(), out[:, 12:, 12:].abs().amax()
    assert near > 0.1 and far == 0
    ring = out[:, 8:10, 8:10].abs().amax()
    assert 0 < ring < 0.1 * near


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: stack((6,)), "BilateralNet: Expected 'hidden_channels' of 2 sizes"),
        (lambda: stack((6, 0)), "BilateralNet: Expected 'hidden_channels'"),
        (lambda: BilateralNet(-1, 8, 2, 2, plain=True), "Expected 'in_channels' of 1 or more"),
        (lambda: BNNLeNet(1, 5, side=32), "BNNLeNet: Expected 'side'"),
        (lambda: BNNLeNet(0, 5), "BNNLeNet: Expected 'in_channels'"),
        (lambda: BNNLeNet(1, 5, extent=0.0), "BNNLeNet: Expected 'extent' above 0"),
        (lambda: BNNDeepCNet(1, 5, depth=0), "BNNDeepCNet: Expected 'depth'"),
        (lambda: LatticeCNet(1, 6, 5, 2, -1.0), "LatticeCNet: Expected 'extent' above 0"),
        (lambda: LatticeCNet(1, 6, 5, 2, 9.0, read=0), "LatticeCNet: Expected 'read'"),
    ],
)
def test_wrong_sizes(make, message):
    with pytest.raises(ValueError, match=message):
        make()
