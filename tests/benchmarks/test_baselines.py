import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Batch, Data

from permutogeo.benchmarks.baselines import BASELINES, farthest_points, prepare
from permutogeo.benchmarks.diffusion_net import spectrum


def cloud(count, seed):
    generator = torch.Generator().manual_seed(seed)
    pos = torch.randn(count, 3, generator=generator)
    return Data(x=torch.randn(count, 5, generator=generator), pos=pos)


def sphere(kind):
    ball = trimesh.creation.icosphere(3)
    pos = torch.from_numpy(np.array(ball.vertices)).float()
    face = torch.from_numpy(np.array(ball.faces)).t() if kind == "mesh" else None
    return Data(pos=pos, face=face, normal=pos)


def test_farthest_points():
    """Each is the farthest of all from those before it, by brute force."""
    place = np.random.default_rng(0).random((40, 3))
    found = farthest_points(place, 12)
    for i in range(1, 12):
        apart = np.linalg.norm(place[:, None] - place[found[:i]], axis=-1).min(1)
        assert apart[found[i]] == pytest.approx(apart.max())


@pytest.mark.parametrize("task", ["graph", "point"])
@pytest.mark.parametrize("name", BASELINES)
def test_clouds_of_a_batch_do_not_see_each_other(name, task):
    items = [prepare(cloud(count, seed), name) for seed, count in enumerate((60, 90))]
    torch.manual_seed(0)
    model = BASELINES[name](name, 5, 8, 4, task).eval()
    with torch.no_grad():
        alone = [model(Batch.from_data_list([item])) for item in items]
        both = model(Batch.from_data_list(items))
    assert both.shape == ((2, 4) if task == "graph" else (150, 4))
    torch.testing.assert_close(torch.cat(alone), both, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "count", "tolerance"), [("mesh", 16, 0.02), ("cloud", 9, 0.25)])
def test_spectrum_of_the_sphere(kind, count, tolerance):
    """The eigenvalues are l (l + 1), each 2 l + 1 times, and the area is 4 pi; of a cloud, whose
    points are no disc of even density, within a fourth, and alike for each l."""
    found = spectrum(sphere(kind))
    wanted = torch.tensor([0.0] + [2.0] * 3 + [6.0] * 5 + [12.0] * 7)[:count]
    torch.testing.assert_close(found.value[:count], wanted, rtol=tolerance, atol=1e-2)
    for first, last in ((1, 4), (4, 9)):
        assert float(found.value[last - 1] / found.value[first]) < 1.03
    assert float(found.mass.sum()) == pytest.approx(4 * np.pi, rel=tolerance)


@pytest.mark.parametrize(("kind", "tolerance"), [("mesh", 0.03), ("cloud", 0.06)])
def test_gradient_of_a_height(kind, tolerance):
    """The gradient of z along the unit sphere has the length of the distance from the axis."""
    data = sphere(kind)
    found = spectrum(data)
    height = data.pos[:, 2:]
    length = torch.cat([found.along @ height, found.across @ height], 1).norm(dim=1)
    error = (length - data.pos[:, :2].norm(dim=1)).abs()
    assert float(error.max()) < tolerance and float(error.mean()) < 0.02
