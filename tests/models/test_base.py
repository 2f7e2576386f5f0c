import pytest
import torch
from torch_geometric.data import Data

from permutogeo.models import BilateralNet, HPLFlowNet, LatticeCNet, LatticeUNet


def make_data(y, count=60):
    return Data(x=torch.rand(count, 2), pos=torch.rand(count, 3) * 50, y=y)


def test_from_data_takes_a_scale():
    model = LatticeUNet.from_data(make_data(torch.zeros(60, dtype=torch.int64)), 8, scale=0.5)
    assert model.scale == 0.5


@pytest.mark.parametrize("y", [torch.tensor(3), torch.tensor([3]), torch.rand(1, 4)])
def test_labels_of_graphs(y):
    model = LatticeUNet.from_data(make_data(y), 8)
    assert (model.task, model.out_channels) == ("graph", 4)


def test_from_data_of_models_with_one_task():
    points, graph = make_data(torch.rand(60, 3)), make_data(torch.tensor([2]))
    assert HPLFlowNet.from_data(points, 8).out_channels == 3
    model = LatticeCNet.from_data(graph, 4, extent=50.0, depth=1)
    assert model(graph.x, graph.pos).shape == (1, 3)
    with pytest.raises(ValueError, match="HPLFlowNet: Expected 'y' of a point"):
        HPLFlowNet.from_data(graph)
    with pytest.raises(ValueError, match="LatticeCNet: Expected 'y' of a graph"):
        LatticeCNet.from_data(points, extent=50.0)


def test_from_data_errors():
    labels = torch.arange(60) % 3
    with pytest.raises(ValueError, match="LatticeUNet: Expected a dataset that is not empty"):
        LatticeUNet.from_data([])
    expected = "LatticeUNet: Expected data with 'x' of shape .* and 'feature' or 'pos'"
    for wrong in (
        Data(x=torch.rand(60, 3), y=labels),
        Data(pos=torch.rand(60, 3), y=labels),
        Data(x=torch.rand(60), pos=torch.rand(60, 3), y=labels),
    ):
        with pytest.raises(ValueError, match=expected):
            LatticeUNet.from_data([wrong])
    with pytest.raises(ValueError, match=r"Expected labels of 0 or more \(got -1\); state 'out_ch"):
        LatticeUNet.from_data(make_data(labels - 1))
    assert LatticeUNet.from_data(make_data(labels - 1), out_channels=2).out_channels == 2
    with pytest.raises(ValueError, match="Expected 'out_channels', or data with 'y'"):
        LatticeUNet.from_data(make_data(None))
    with pytest.raises(ValueError, match=r"a label for each of the 60 points, or .* \(got 59 "):
        LatticeUNet.from_data(make_data(labels[:59]))
    with pytest.raises(ValueError, match="Expected points that differ"):
        LatticeUNet.from_data(Data(x=torch.rand(9, 2), pos=torch.ones(9, 3), y=labels[:9]))


@pytest.mark.parametrize(
    ("sizes", "name"),
    [((0, 8, 5, 3), "in_channels"), ((3, 8, 0, 3), "out_channels"), ((3, 8, 5, 0), "dim")],
)
def test_errors_of_sizes(sizes, name):
    with pytest.raises(ValueError, match=f"BilateralNet: Expected '{name}'"):
        BilateralNet(*sizes)
    with pytest.raises(ValueError, match="BilateralNet: Expected 'num_layers'"):
        BilateralNet(3, 8, 5, 3, num_layers=0)
