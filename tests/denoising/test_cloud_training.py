import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.denoising import CloudTrainingSettings, train_cloud_denoiser
from permutogeo.denoising.cloud_training import NOISES, add_cloud_noise, random_cloud

SMALL = CloudTrainingSettings(2, 4, points=500, density=(600, 800))


def sphere():
    mesh = trimesh.creation.icosphere(3)
    pos = torch.from_numpy(np.array(mesh.vertices)).float()
    return Data(pos=pos, face=torch.from_numpy(np.array(mesh.faces).T.copy()).long())


@pytest.mark.parametrize("kind", sorted(set(NOISES)))
def test_noise_has_its_level(kind):
    clean = torch.zeros(20000, 3, dtype=torch.float64)
    found = add_cloud_noise(clean, 0.1, kind, np.random.default_rng(0))
    length = float(found.square().sum(dim=1).mean().sqrt())
    assert length == pytest.approx(0.1 * (2 if kind == "ray" else 3) ** 0.5, rel=0.03)
    assert np.linalg.matrix_rank(found.numpy(), tol=1e-6) == (1 if kind == "ray" else 3)


def test_errors_of_the_loss():
    cloud = random_cloud(sphere(), SMALL, np.random.default_rng(0))
    chamfer, surface = cloud.errors(cloud.clean)
    assert chamfer == 0 and surface < 0.01
    moved = cloud.clean.clone().requires_grad_()
    sum(cloud.errors(moved + 0.1)).backward()
    assert moved.grad.isfinite().all() and moved.grad.abs().sum() > 0


def test_training_repeats():
    lines = []
    first, second = (train_cloud_denoiser([sphere()], SMALL, lines.append) for _ in range(2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert not first.training
