"""ImageToPoints, RandomSubsample, NormalizeScale, KeepAttributes."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from permutogeo.transforms import ImageToPoints, KeepAttributes, NormalizeScale, RandomSubsample

FACE = torch.tensor([[0], [1], [2]])


def test_image_in_data():
    data = Data(image=torch.rand(1, 3, 4, 5), y=torch.tensor([2]))
    out = ImageToPoints()(data)
    assert str(out) == "Data(y=[1], x=[20, 3], pos=[20, 2], height=4, width=5)"
    assert torch.equal(out.x, data.image[0].permute(1, 2, 0).reshape(-1, 3))
    data.mask = torch.zeros(4, 5, dtype=torch.bool)
    data.mask[1, 2] = True
    assert ImageToPoints()(data).pos.tolist() == [[2, 1]]


@pytest.mark.parametrize("image", [np.zeros((4, 5), np.uint8), Image.new("L", (5, 4))], ids=type)
def test_image_itself(image):
    assert str(ImageToPoints()(image)) == "Data(x=[20, 1], pos=[20, 2], height=4, width=5)"


def test_image_to_points_is_random_or_seeded():
    image = torch.rand(1, 8, 8)
    fresh, seeded = ImageToPoints(0.5), ImageToPoints(0.5, seed=3)
    assert not torch.equal(fresh(image).pos, fresh(image).pos)
    assert torch.equal(seeded(image).pos, seeded(image).pos)
    stream = ImageToPoints(0.5, generator=torch.Generator().manual_seed(3))
    assert torch.equal(stream(image).pos, seeded(image).pos)
    assert not torch.equal(stream(image).pos, seeded(image).pos)
    with pytest.raises(ValueError, match="ImageToPoints: Expected 'seed' or 'generator'"):
        ImageToPoints(0.5, seed=1, generator=torch.Generator())


def test_dataset_of_images():
    images = [ImageToPoints(0.2)(torch.rand(1, 28, 28)) for _ in range(4)]
    batch = next(iter(DataLoader(images, batch_size=4)))
    assert batch.x.shape == (4 * 157, 1) and batch.width.tolist() == [28] * 4


def make_cloud():
    data = Data(pos=torch.arange(30.0).reshape(10, 3), x=torch.arange(10.0)[:, None], face=FACE)
    return data.update({"face_label": torch.zeros(1), "height": 4, "y": torch.tensor([1])})


def test_subsample():
    data = make_cloud()
    out = RandomSubsample(0.3)(data)
    assert set(out.to_dict()) == {"pos", "x", "height", "y"}
    assert out.pos.shape == (3, 3) and out.y.tolist() == [1]
    rows = out.x.flatten().long()
    assert torch.equal(out.pos, data.pos[rows]) and (rows.diff() > 0).all()
    assert RandomSubsample(count=10)(data).x.tolist() == data.x.tolist()
    assert RandomSubsample(count=25, replace=True)(data).num_nodes == 25
    assert RandomSubsample(fraction=0.001)(data).num_nodes == 1
    seeded = RandomSubsample(0.5, seed=1)
    assert torch.equal(seeded(data).x, seeded(data).x)


def test_subsample_of_a_bare_graph():
    data = Data(edge_index=torch.zeros(2, 3, dtype=torch.long), num_nodes=8)
    out = RandomSubsample(count=5)(data)
    assert out.num_nodes == 5 and "edge_index" not in out


def test_subsample_errors():
    for arguments in ({}, {"fraction": 0.5, "count": 3}):
        with pytest.raises(ValueError, match="'fraction' or 'count'"):
            RandomSubsample(**arguments)
    for fraction in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"'fraction' in \(0, 1\]"):
            RandomSubsample(fraction)
    with pytest.raises(ValueError, match="'count' >= 1"):
        RandomSubsample(count=0)
    with pytest.raises(ValueError, match=r"at least 11 points \(got 10\)"):
        RandomSubsample(count=11)(make_cloud())


def test_subsample_is_uniform():
    data = Data(x=torch.arange(6)[:, None])
    counts = sum(RandomSubsample(0.5)(data).x.flatten().bincount(minlength=6) for _ in range(2000))
    assert (counts - 1000).abs().max() < 150


@pytest.mark.parametrize("by", ["radius", "edge"])
def test_normalize_scale(by):
    data = Data(pos=torch.randn(20, 3) * 7 + 100, face=torch.randint(20, (3, 30)))
    transform = NormalizeScale(by)
    out = transform(data)
    assert out.pos.mean(0).abs().max() < 1e-4
    if by == "radius":
        assert out.pos.norm(dim=1).max() == pytest.approx(1.0)
    assert out.center.shape == (1, 3) and out.scale.shape == (1,)
    back = transform.inverse(out)
    torch.testing.assert_close(back.pos, data.pos)
    assert set(back.to_dict()) == {"pos", "face"} and "scale" in out


def test_normalize_one_place():
    out = NormalizeScale()(Data(pos=torch.ones(3, 2)))
    assert (out.pos == 0).all() and out.scale.item() == 1
    with pytest.raises(ValueError, match="at least one point"):
        NormalizeScale()(Data(pos=torch.ones(0, 2)))
    with pytest.raises(ValueError, match="'by' in radius, edge"):
        NormalizeScale("box")


def test_keep_attributes():
    out = KeepAttributes("x", "height")(make_cloud())
    assert set(out.to_dict()) == {"x", "height"}
    with pytest.raises(ValueError, match="Expected 'feature' in data"):
        KeepAttributes("feature")(make_cloud())
    with pytest.raises(ValueError, match="at least one name"):
        KeepAttributes()
