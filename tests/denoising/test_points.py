import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.denoising import MeshDenoiser
from permutogeo.denoising.points import PointElements

GENERATOR = torch.Generator().manual_seed(0)


def test_normals_of_a_cloud_look_outward():
    pos = torch.nn.functional.normalize(torch.randn(2000, 3, generator=GENERATOR), dim=1).double()
    two = torch.cat([pos, pos + torch.tensor([5.0, 0.0, 0.0])])
    normal, _, area = PointElements(two).geometry(two)
    assert ((normal * torch.cat([pos, pos])).sum(dim=1) > 0.95).all()
    # Half the faces of a triangulation have a sample each: the area is known.
    assert float(area.sum()) == pytest.approx(2 * 4 * np.pi, rel=0.15)


def test_a_cloud_is_denoised():
    direction = torch.nn.functional.normalize(torch.randn(4000, 3, generator=GENERATOR), dim=1)
    noisy = direction * (1 + 0.02 * torch.randn(4000, 1, generator=GENERATOR))
    result = MeshDenoiser.from_pretrained()(Data(pos=noisy, x=torch.rand(4000, 3)))
    before = (noisy.norm(dim=1) - 1).abs().mean()
    assert (result.pos.norm(dim=1) - 1).abs().mean() < 0.4 * before
    assert set(result.keys()) == {"pos", "x"}


def test_a_sharp_cloud_is_denoised():
    mesh = trimesh.creation.box()
    rng = np.random.default_rng(0)
    point, face = trimesh.sample.sample_surface(mesh, 6000, seed=0)
    normal = mesh.face_normals[face]
    noisy = point + 0.012 * rng.standard_normal((6000, 1)) * normal
    result = MeshDenoiser.from_pretrained()(Data(pos=torch.from_numpy(noisy).float()))

    def distance(pos):
        return np.abs(np.abs(pos).max(axis=1) - 0.5).mean()

    assert distance(result.pos.numpy()) < 0.6 * distance(noisy)


@pytest.mark.parametrize("level, most", [(0.05, 1.0), (0.2, 0.8), (0.5, 0.5)])
def test_a_coarse_sharp_cloud_becomes_no_worse(level, most):
    """Half of all points are near edges, the noise has all directions."""
    rng = np.random.default_rng(1)
    point, _ = trimesh.sample.sample_surface(trimesh.creation.box(), 2500, seed=0)
    spacing = PointElements(torch.from_numpy(np.array(point))).spacing
    noisy = point + level * spacing / 3**0.5 * rng.standard_normal(point.shape)
    result = MeshDenoiser.from_pretrained()(Data(pos=torch.from_numpy(noisy).float()))

    def distance(pos):
        beyond = np.abs(pos) - 0.5
        outside = np.linalg.norm(beyond.clip(min=0), axis=1)
        return (outside - beyond.max(axis=1).clip(max=0)).mean()

    assert distance(result.pos.numpy()) < most * distance(noisy)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_tiny_clouds(count):
    pos = torch.rand(count, 3, generator=GENERATOR)
    result = MeshDenoiser.from_pretrained()(Data(pos=pos))
    assert result.pos.shape == pos.shape and result.pos.isfinite().all()
