"""Suggested scales give the wanted number of points per vertex."""

import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from permutogeo import Lattice, suggest_scale


def density(feature):
    lattice = Lattice.build(feature)
    return lattice.num_points / lattice.num_vertices


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("target", [1.5, 3.0, 10.0])
def test_points_per_vertex(dim, target):
    feature = torch.rand(3000, dim) * 40 + 1000
    assert density(feature * suggest_scale(feature, target)) == pytest.approx(target, rel=0.1)


def test_units_do_not_matter():
    feature = torch.randn(2000, 3)
    assert suggest_scale(feature * 1e3) == pytest.approx(suggest_scale(feature) / 1e3, rel=1e-2)


def test_large_clouds_are_cropped_not_thinned():
    feature = torch.rand(150_000, 3)
    assert density(feature * suggest_scale(feature)) == pytest.approx(3, rel=0.15)


def test_data_and_datasets():
    items = [Data(pos=torch.rand(500, 3), x=torch.rand(500, 1)) for _ in range(20)]
    scale = suggest_scale(items)
    densities = [density(item.pos * scale) for item in items]
    assert sum(densities) / len(densities) == pytest.approx(3, rel=0.1)
    assert suggest_scale(items[0]) == pytest.approx(suggest_scale(items[0].pos))
    items[0].feature = items[0].pos / 2
    assert suggest_scale(items[0]) == pytest.approx(2 * suggest_scale(items[0].pos), rel=1e-2)


class Kept(InMemoryDataset):
    """Items in memory; the attribute ``pos`` of the dataset has the points of all of them."""

    def __init__(self, items):
        super().__init__()
        self.data, self.slices = self.collate(items)


def test_batches_and_datasets_in_memory():
    """Points of different graphs never share a vertex."""
    items = [Data(pos=torch.rand(300, 3), num_nodes=300) for _ in range(20)]
    expected = suggest_scale(items)
    assert suggest_scale(Kept(items)) == pytest.approx(expected)
    assert suggest_scale(Batch.from_data_list(items)) == pytest.approx(expected)


def test_fixed_features():
    feature, color = torch.rand(3000, 2) * 9, torch.rand(3000, 1) * 4
    scale = suggest_scale(feature, fixed=color)
    assert density(torch.cat([feature * scale, color], 1)) == pytest.approx(3, rel=0.1)


def test_errors():
    with pytest.raises(ValueError, match=r"points that differ \(got 100 equal ones\)"):
        suggest_scale(torch.ones(100, 3))
    with pytest.raises(ValueError, match="Expected more points for 3 points per vertex"):
        suggest_scale(torch.rand(8, 3))
    with pytest.raises(ValueError, match="larger bandwidths of the fixed features"):
        suggest_scale(torch.rand(100, 3), fixed=torch.rand(100, 3) * 1e3)
    empty = Data(pos=torch.rand(0, 3), batch=torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"points that differ \(got 0 equal ones\)"):
        suggest_scale(empty)
    with pytest.raises(ValueError, match="a dataset that is not empty"):
        suggest_scale([])
    for wrong in (3, "rooms", Data(x=torch.rand(9, 3)), [Data(x=torch.rand(9, 3))]):
        with pytest.raises(TypeError, match=r"features \[N, d\], data with 'feature' or 'pos'"):
            suggest_scale(wrong)
    with pytest.raises(ValueError, match="above 1 / 4, where each point has its own 4 vertices"):
        suggest_scale(torch.rand(100, 3), 0.25)
    with pytest.raises(ValueError, match=r"points that differ for 0\.4 points per vertex"):
        suggest_scale(torch.rand(50, 3).repeat(2, 1), 0.4)
    with pytest.raises(
        ValueError, match=r"features of one dimension in all samples \(got \[2, 3\]\)"
    ):
        suggest_scale([Data(pos=torch.rand(50, dim)) for dim in (3, 2)])
    with pytest.raises(ValueError, match="positive 'points_per_vertex'"):
        suggest_scale(torch.rand(100, 3), 0)
    with pytest.raises(ValueError, match="'fixed' with a row for each of the 100 points"):
        suggest_scale(torch.rand(100, 3), fixed=torch.rand(5, 1))
