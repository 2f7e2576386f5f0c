import pytest
import torch
from torch_geometric.data import Batch, Data

from permutogeo.transforms import KNNGraph


def test_str():
    assert str(KNNGraph(5)) == "KNNGraph(k=5)"


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("k", [1, 6])
def test_edges_come_from_the_nearest(dim, k):
    pos = torch.randn(40, dim, dtype=torch.float64)
    edge_index = KNNGraph(k)(Data(pos=pos)).edge_index
    expected = torch.cdist(pos, pos).topk(k, largest=False).indices
    assert edge_index.dtype == torch.int64
    assert torch.equal(edge_index[1].view(40, k), torch.arange(40).unsqueeze(1).expand(-1, k))
    assert torch.equal(edge_index[0].view(40, k), expected)


def test_input_is_never_changed():
    data = Data(pos=torch.rand(9, 3))
    assert "edge_index" in KNNGraph(2)(data)
    assert list(data.to_dict()) == ["pos"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_points_have_all_edges(count):
    edge_index = KNNGraph(5)(Data(pos=torch.rand(count, 3))).edge_index
    assert edge_index.shape == (2, count**2)
    assert len(set(map(tuple, edge_index.t().tolist()))) == count**2


def test_errors():
    with pytest.raises(ValueError, match=r"KNNGraph: Expected 'k' >= 1 \(got 0\)"):
        KNNGraph(0)
    with pytest.raises(ValueError, match=r"KNNGraph: Expected 'pos' in data \(it has thing\)"):
        KNNGraph()(Data(thing=torch.zeros(2)))
    with pytest.raises(ValueError, match="before batching"):
        KNNGraph()(Batch.from_data_list([Data(pos=torch.rand(9, 3))] * 2))
