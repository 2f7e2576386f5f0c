"""SplatNet2D3D: each side learns from what only the other side sees."""

import pytest
import torch
from torch.nn import functional

from permutogeo.models import SplatNet2D3D


def scene(count=120):
    """Points, samples of a view along the third axis, and a label that depends on the place."""
    points, samples = torch.rand(count, 3) * 4, torch.rand(count, 3) * 4
    labels = [(each[:, 0] > 2).long() for each in (points, samples)]
    return (points, samples), samples[:, :2], labels


def test_str_and_shapes():
    model = SplatNet2D3D((2, 3), 8, (4, 5))
    assert str(model) == "SplatNet2D3D((2, 3), 8, (4, 5), scales=(1.0, 0.5))"
    position, plane, _ = scene()
    out = model((torch.rand(120, 2), torch.rand(120, 3)), position, plane)
    assert [each.shape for each in out] == [(120, 4), (120, 5)]


def test_points_see_what_only_the_samples_carry():
    """Points have constant values; the samples are colored by their label."""
    torch.manual_seed(0)
    model = SplatNet2D3D((1, 1), 8, (2, 2), num_layers=1)
    position, plane, labels = scene()
    x = torch.ones(120, 1), labels[1].float().unsqueeze(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(25):
        loss = sum(
            functional.cross_entropy(out, y)
            for out, y in zip(model(x, position, plane), labels, strict=True)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    points, samples = model(x, position, plane)
    assert (points.argmax(1) == labels[0]).float().mean() > 0.85
    assert (samples.argmax(1) == labels[1]).float().mean() > 0.95


def test_scenes_stay_apart():
    model = SplatNet2D3D((1, 1), 8, (2, 2), num_layers=1).double().eval()
    position, plane, _ = scene(60)
    position, plane = [each.double() for each in position], plane.double()
    x = torch.rand(60, 1).double(), torch.rand(60, 1).double()
    batch = torch.arange(2).repeat_interleave(30)
    together = model(x, position, plane, (batch, batch))
    half = [each[:30] for each in x], [each[:30] for each in position], plane[:30]
    for found, expected in zip(together, model(*half), strict=True):
        torch.testing.assert_close(found[:30], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("batched", [False, True])
def test_given_lattices(batched):
    model = SplatNet2D3D((2, 3), 8, (4, 5)).double().eval()
    position, plane, _ = scene(60)
    position, plane = [each.double() for each in position], plane.double()
    x = torch.rand(60, 2).double(), torch.rand(60, 3).double()
    scenes = (torch.arange(2).repeat_interleave(30),) * 2 if batched else None
    view = torch.arange(3).repeat_interleave(20)
    expected = model(x, position, plane, scenes, view)
    lattices = model.build_lattices(position, plane, scenes, view)
    for found in (
        model(x, None, None, lattices=lattices),
        model(x, position, plane, scenes, view, lattices),
    ):
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_errors():
    model = SplatNet2D3D((1, 1), 8, (2, 2))
    position, plane, _ = scene()
    with pytest.raises(ValueError, match="SplatNet2D3D: Expected 'plane' of 120 samples"):
        model((torch.rand(120, 1), torch.rand(120, 1)), position, plane[:5])
    with pytest.raises(ValueError, match="SplatNet2D3D: Expected 'x' to be a pair"):
        model(torch.rand(120, 1), position, plane)
    with pytest.raises(ValueError, match=r"Expected 'plane' of 120 samples \(got None\)"):
        model((torch.rand(120, 1), torch.rand(120, 1)), position, None)
    lattices = model.build_lattices(position, plane)
    with pytest.raises(ValueError, match=r"Expected 'lattices' of build_lattices \(got list\)"):
        model((torch.rand(120, 1), torch.rand(120, 1)), position, plane, lattices=list(lattices))
    with pytest.raises(TypeError, match=r"Expected 'x' of torch.float32 like the"):
        model((torch.rand(120, 1).double(), torch.rand(120, 1)), position, plane)
