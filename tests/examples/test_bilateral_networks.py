"""Parts of the examples on bilateral networks; test_examples.py runs the whole scripts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.signal import correlate
from torch_geometric.data import Data

from permutogeo.models import BNNLeNet


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
def test_dense_convolution(examples, dim):
    """Against scipy's correlation in any dimension."""
    convolve = examples("runtime_table").dense_convolution
    x, weight = torch.rand(1, 2, *[4] * dim), torch.rand(3, 2, *[3] * dim)
    wanted = [
        sum(correlate(x[0, c].numpy(), weight[o, c].numpy(), "same") for c in range(2))
        for o in range(3)
    ]
    np.testing.assert_allclose(convolve(x, weight)[0], np.stack(wanted), rtol=1e-4)


def test_no_convolution_that_does_not_fit(examples):
    """The 5-D grid of the paper needs more than any machine at hand, the 4-D one does not."""
    size = examples("runtime_table").dense_bytes
    assert size((50,) * 5, 3) > 200e9
    assert 50**4 * 53 * 4 < size((50,) * 4, 3) < 10e9


def test_cells_of_the_runtime_table(examples):
    """Times with building stand in brackets; what does not fit is said."""
    row = {"taps": 63, "vertices": 257046, "build": 50.4, "lattice forward": 70.6,
           "lattice forward + build": 1121.2, "lattice forward + backward": 346.7,
           "lattice forward + backward + build": 385.2}  # fmt: skip
    row |= dict.fromkeys(("dense forward", "dense forward + backward"), "out of memory: 225 GB")
    found = examples("runtime_table").cells(5, row)
    assert (found["vertices"], found["build"]) == ("257,046", "50.4")
    assert found["lattice: forward"] == "70.6 (1,121.2)"
    assert found["lattice: with backward"] == "346.7 (385.2)"
    assert found["dense: forward"] == "out of memory: 225 GB"


def pixel_places(count):
    y, x = np.mgrid[:28, :28]
    pos = torch.from_numpy(np.stack([x, y], -1).reshape(-1, 2)).float().repeat(count, 1)
    return pos, torch.arange(count).repeat_interleave(784)


@pytest.mark.parametrize("name", ["bilinear", "density", "mean", "nearest"])
def test_points_on_pixels_are_the_image(examples, name):
    image, (pos, batch) = torch.rand(2, 28, 28), pixel_places(2)
    grid = examples("_networks").INTERPOLATIONS[name](image.flatten(), pos, batch, 2, 28)
    torch.testing.assert_close(grid[:, 0], image)
    twin = examples("_networks").SpatialTwin(BNNLeNet(1, 10, side=28), 5, 28, name)
    assert twin(image.view(-1, 1), pos, batch).shape == (2, 10)


def test_interpolations_of_two_points(examples):
    """Two points of one pixel by hand: weighted mean and sum, mean, and the nearest."""
    ways = examples("_networks").INTERPOLATIONS
    x, two = torch.tensor([1.0, 0.0]), torch.tensor([[3.25, 5.5], [3.4, 5.2]])
    batch = torch.zeros(2, dtype=torch.long)
    grids = {name: way(x, two, batch, 1, 28)[0, 0] for name, way in ways.items()}
    first, second = 0.75 * 0.5, 0.6 * 0.8
    assert float(grids["bilinear"][5, 3]) == pytest.approx(first / (first + second))
    assert float(grids["density"][5, 3]) == pytest.approx(first)
    assert int((grids["density"] != 0).sum()) == int((grids["bilinear"] != 0).sum()) == 4
    assert int((grids["mean"] != 0).sum()) == 1 and float(grids["mean"][6, 3]) == 1.0
    assert float(grids["nearest"][5, 3]) == 0.0 and float(grids["nearest"][20, 3]) == 1.0


def test_distorted_characters(examples):
    """Positions change smoothly, stay on the drawing, and the original is left alone."""
    torch.manual_seed(0)
    module = examples("assamese")
    data = Data(pos=95 * torch.rand(200, 2))
    before = data.pos.clone()
    found = module.Distort()(data).pos
    assert torch.equal(data.pos, before) and not torch.equal(found, before)
    assert float(found.min()) >= 0 and float(found.max()) <= 95
    assert float((found - before).abs().mean()) < 20


def test_networks_of_the_options(examples):
    """The arguments reach the first layers."""
    digits, characters = examples("sparse_digits"), examples("assamese")
    args = SimpleNamespace(
        interpolation="mean", extent=36.0, normalize="none", radius=2, published=False, read="grid",
        filters=3,
    )  # fmt: skip
    bnn, feature = digits.network("BNN", args)
    assert (bnn.extent, bnn.normalize) == (36.0, None)
    found = feature(Data(pos=torch.full((1, 2), 27.0), x=torch.ones(1, 1))).feature
    torch.testing.assert_close(found, torch.full((1, 2), 36.0))
    assert digits.network("LeNet", args)[0].interpolation == "mean"
    lenet = characters.CONTENDERS["BNN-LeNet"].make(args, 40.0)
    assert (lenet.extent, lenet.radius, lenet.normalize) == (40.0, 2, None)
    assert lenet.first.conv.out_channels == 3
    twin = characters.CONTENDERS["Crop-LeNet"].make(args, 95.0)
    assert twin.first.out_channels == 3
    two = torch.ones(2, 1), torch.rand(2, 2), torch.tensor([0, 1])
    assert lenet(*two).shape == twin(*two).shape == (2, 183)


def test_learning_rates(examples, tmp_path):
    """The one of least loss, where those that diverge lose; trials are kept and not made again."""
    choose, args, tried = examples("_networks").choose_lr, SimpleNamespace(output=tmp_path), []

    def loss(lr):
        tried.append(lr)
        if lr > 1:
            raise FloatingPointError
        return abs(lr - 0.2)

    for _ in range(2):
        assert choose("CNN 9x9", loss, [0.03, 0.3, 3.0], args) == 0.3
    assert tried == [0.03, 0.3, 3.0]
    lines = (tmp_path / "lr_cnn_9x9.csv").read_text().splitlines()
    assert lines[0] == "lr,score" and len(lines) == 4


def test_twins_share_their_sizes(examples):
    """The paper's spatial networks have 52k parameters with 9 x 9 filters, 282k with 21 x 21."""
    net = examples("tiles").SpatialNet
    count = {k: sum(p.numel() for p in net(k).parameters()) for k in (9, 21)}
    assert count == {9: 51_890, 21: 282_290}
    assert net(9, side=16)(torch.rand(512, 3), None).shape == (512, 2)


@pytest.mark.parametrize("kernel", [3, 9, 21])
def test_spatial_layers_by_fourier_transforms(examples, kernel):
    """The same as torch's own convolution, and the same gradients."""
    layer = torch.nn.Conv2d(3, 4, kernel, padding=kernel // 2, dtype=torch.float64)
    x = torch.rand(2, 3, 30, 30, dtype=torch.float64, requires_grad=True)
    leaves = (x, *layer.parameters())
    found, expected = examples("tiles").convolve(x, layer), layer(x)
    torch.testing.assert_close(found, expected)
    weight = torch.rand_like(expected)
    pairs = (torch.autograd.grad((out * weight).sum(), leaves) for out in (found, expected))
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other)


def test_first_layer_at_the_ink(examples):
    """The values of the layer at the pixels with ink, 0 elsewhere, without the border."""
    args = SimpleNamespace(normalize="before", radius=1, published=True, read="ink", filters=0)
    characters = examples("assamese")
    model = characters.CONTENDERS["BNN-LeNet"].make(args, 20.0)
    pos = torch.tensor([[0, 0], [2, 2], [3, 2], [93, 93], [94, 93], [50, 7]])
    batch = torch.tensor([0, 0, 0, 0, 1, 1])
    feature = pos * 20 / 95
    got = model.first(torch.ones(6, 1), feature, batch)
    wanted = model.first.conv(torch.ones(6, 1), feature, batch)
    assert got.shape == (2, 8, 92, 92)
    for point, (graph, column, row) in {
        1: (0, 0, 0),
        2: (0, 1, 0),
        3: (0, 91, 91),
        5: (1, 48, 5),
    }.items():
        assert got[graph, :, row, column].equal(wanted[point])
    assert int((got != 0).any(1).sum()) == 4
