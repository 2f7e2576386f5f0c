import numpy as np
import torch
import trimesh
from scipy.spatial import cKDTree

from permutogeo.denoising.surface_sampling import sample_surface


def test_points_lie_on_the_mesh_evenly():
    mesh = trimesh.creation.box()
    pos, face = torch.from_numpy(np.array(mesh.vertices)), torch.from_numpy(mesh.faces.T.copy())
    gaps = []
    for even in (False, True):
        points, normal = sample_surface(pos, face, 1500, np.random.default_rng(0), even)
        assert points.shape == normal.shape == (1500, 3)
        torch.testing.assert_close((points * normal).sum(dim=1), torch.full((1500,), 0.5).double())
        side = normal.abs().argmax(dim=1)
        assert (side.bincount() - 500).abs().max() < 75
        gaps.append(cKDTree(points.numpy()).query(points.numpy(), 2)[0][:, 1])
    assert np.median(gaps[1]) > 1.4 * np.median(gaps[0])
    assert gaps[1].min() > 0.3 * np.median(gaps[1])
