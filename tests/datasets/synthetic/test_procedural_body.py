"""The smooth union of capsules, and the meshes of it."""

import numpy as np
import pytest
import torch
import trimesh
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from permutogeo.datasets import procedural_body
from permutogeo.datasets.synthetic.procedural_body import CapsuleUnion


def test_capsules():
    """Value and gradient of the smooth union against brute force in float64."""
    rng = np.random.default_rng(0)
    start, end, radius = rng.random((4, 3)), rng.random((4, 3)), rng.uniform(0.1, 0.3, (4, 2))
    end[0] = start[0]
    field = CapsuleUnion(start, end, radius, width=0.05)

    def brute(point):
        distance = []
        for a, b, (r, s) in zip(start, end, radius, strict=True):
            t = np.clip((point - a) @ (b - a) / max((b - a) @ (b - a), 1e-12), 0, 1)
            distance.append(np.linalg.norm(point - a - t * (b - a)) - r - t * (s - r))
        return -0.05 * logsumexp(-np.array(distance) / 0.05)

    points = rng.uniform(-0.5, 1.5, (40, 3))
    expected = [brute(point) for point in points]
    value, gradient = field.value_and_gradient(points)
    np.testing.assert_allclose(value, expected, atol=1e-9)
    np.testing.assert_allclose(field(points), expected, atol=1e-9)
    numeric = [approx_fprime(point, brute, 1e-7) for point in points]
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    low, high = field.bounds()
    assert field(points[((points < low) | (points > high)).any(axis=1)]).min() > 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_procedural_bodies(seed):
    data = procedural_body(seed, resolution=64)
    mesh = trimesh.Trimesh(data.pos, data.face.T, process=False)
    assert mesh.is_watertight and mesh.is_winding_consistent
    assert mesh.euler_number == 2 and mesh.body_count == 1
    assert 0.03 < mesh.volume < 0.15
    assert 1.3 < np.ptp(mesh.vertices[:, 1]) < 2.1 and abs(mesh.vertices[:, 1].min()) < 1e-6
    assert np.degrees(mesh.face_angles.min()) > 1
    assert np.percentile(np.degrees(mesh.face_angles.min(axis=1)), 1) > 30
    angle = np.degrees(mesh.face_adjacency_angles)
    assert np.percentile(angle, 95) < 45  # no staircase of the grid remains
    assert torch.equal(data.pos, procedural_body(seed, resolution=64).pos)


def test_default_resolution():
    body = procedural_body(0)
    assert 8000 < len(body.pos) < 15000
    with pytest.raises(ValueError, match=r"Expected 'resolution' of 32 or more \(got 8\)"):
        procedural_body(0, resolution=8)
