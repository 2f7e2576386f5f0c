import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from torch_geometric.data import Data

from permutogeo import Lattice
from permutogeo.transforms import BilateralFeature
from permutogeo.transforms.bilateral_feature import rgb_to_lab


@pytest.fixture
def data():
    return Data(x=torch.rand(6, 3), pos=torch.rand(6, 2) * 10, normal=torch.randn(6, 3))


def test_parts_in_order(data):
    out = BilateralFeature(rgb=0.5, pos=(2.0, 4.0))(data)
    expected = torch.cat([data.x / 0.5, data.pos / torch.tensor([2.0, 4.0])], dim=1)
    torch.testing.assert_close(out.feature, expected)
    swapped = BilateralFeature(pos=(2.0, 4.0), rgb=0.5)(data)
    torch.testing.assert_close(swapped.feature, expected[:, [3, 4, 0, 1, 2]])


def test_every_source(data):
    data.intrinsic = torch.rand(6, 4)
    data.time = torch.arange(6)
    out = BilateralFeature(
        "f", pos=1.0, intensity=1.0, rgb=1.0, lab=1.0, normal=1.0, intrinsic=1.0, time=2.0
    )(data)
    assert out.f.shape == (6, 2 + 1 + 3 + 3 + 3 + 4 + 1)
    assert out.f[:, -1].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]


def test_own_attribute_wins(data):
    data.intensity = torch.arange(6.0)
    assert BilateralFeature(intensity=2.0)(data).feature.flatten().tolist() == [
        0,
        0.5,
        1,
        1.5,
        2,
        2.5,
    ]


def test_gray_and_alpha(data):
    data.x = torch.rand(6, 1)
    assert torch.equal(BilateralFeature(intensity=1.0)(data).feature, data.x)
    data.x = torch.rand(6, 4)
    torch.testing.assert_close(BilateralFeature(rgb=1.0)(data).feature, data.x[:, :3])


def test_dtype_and_gradient(data):
    data.pos = data.pos.double().requires_grad_()
    out = BilateralFeature(pos=2.0)(data).feature
    assert out.dtype == torch.float64
    out.sum().backward()
    assert (data.pos.grad == 0.5).all()


@settings(max_examples=30, deadline=None)
@given(hnp.arrays(np.float64, (7, 3), elements={"min_value": 0.0, "max_value": 1.0}))
def test_lab_is_that_of_skimage(rgb):
    color = pytest.importorskip("skimage.color")
    ours = rgb_to_lab(torch.from_numpy(rgb)).numpy()
    np.testing.assert_allclose(ours, color.rgb2lab(rgb), atol=1e-4)


def test_lab_has_gradients_everywhere():
    rgb = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.04, 0.5, 0.0]], requires_grad=True)
    rgb_to_lab(rgb).sum().backward()
    assert torch.isfinite(rgb.grad).all()


@pytest.mark.parametrize(
    "sigma", [0.0, -1.0, float("nan"), float("inf"), (), (1.0, 0.0), "large", (1.0, "auto")]
)
def test_wrong_sigma(sigma):
    expected = "BilateralFeature: Expected positive finite sigmas or 'auto' for 'pos'"
    with pytest.raises(ValueError, match=expected):
        BilateralFeature(pos=sigma)


def test_automatic_bandwidth():
    pos, color = torch.rand(4000, 3) * 70, torch.rand(4000, 1)
    data = BilateralFeature(pos="auto")(Data(pos=pos))
    lattice = Lattice.build(data.feature)
    assert lattice.num_points / lattice.num_vertices == pytest.approx(3, rel=0.05)
    torch.testing.assert_close(data.feature * (pos[0, 0] / data.feature[0, 0]), pos)
    transform = BilateralFeature(intensity=0.5, pos="auto")
    data = transform(Data(pos=pos, intensity=color))
    lattice = Lattice.build(data.feature)
    assert lattice.num_points / lattice.num_vertices == pytest.approx(3, rel=0.05)
    torch.testing.assert_close(data.feature[:, :1], color / 0.5)
    assert str(transform) == "BilateralFeature(intensity=0.5, pos='auto')"
    with pytest.raises(ValueError, match=r"at most one sigma to be 'auto' \(got pos, normal\)"):
        BilateralFeature(pos="auto", normal="auto")


def test_errors(data):
    with pytest.raises(ValueError, match="at least one sigma"):
        BilateralFeature()
    with pytest.raises(ValueError, match=r"Expected 2 sigmas for 'pos' \(got 3\)"):
        BilateralFeature(pos=(1.0, 2.0, 3.0))(data)
    with pytest.raises(ValueError, match=r"Expected 'depth' in data \(it has x, pos, normal\)"):
        BilateralFeature(depth=1.0)(data)
    data.short = torch.rand(2)
    with pytest.raises(ValueError, match="equal numbers of rows"):
        BilateralFeature(pos=1.0, short=1.0)(data)
    data.x = torch.rand(6, 2)
    with pytest.raises(
        ValueError, match=r"colors 'x' of shape \[N, 3\] for 'lab' \(got \[6, 2\]\)"
    ):
        BilateralFeature(lab=1.0)(data)
    del data.x
    with pytest.raises(ValueError, match="Expected 'rgb' or colors 'x' in data"):
        BilateralFeature(rgb=1.0)(data)
