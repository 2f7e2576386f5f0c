import math

import numpy as np
import pytest
import torch

from permutogeo.data import from_mesh
from permutogeo.denoising.mesh_error import (
    normal_angle,
    surface_distance,
    vertex_distance,
    vertex_rmse,
)
from permutogeo.transforms import NormalNoise

trimesh = pytest.importorskip("trimesh")


@pytest.fixture
def pair():
    """A sphere, and the same with noise."""
    mesh = trimesh.creation.icosphere(subdivisions=2)
    rng = np.random.default_rng(0)
    noisy = trimesh.Trimesh(
        mesh.vertices + 0.1 * rng.standard_normal(mesh.vertices.shape), mesh.faces, process=False
    )
    return noisy, mesh


def tensors(noisy, clean):
    pos, target = (torch.tensor(np.array(mesh.vertices)) for mesh in (noisy, clean))
    return pos, target, torch.tensor(np.array(clean.faces.T))


def test_distances(pair):
    pos, target, face = tensors(*pair)
    distance = [math.dist(p, q) for p, q in zip(pos.tolist(), target.tolist(), strict=True)]
    mean = sum(distance) / len(distance)
    square = sum(d * d for d in distance) / len(distance)
    assert vertex_distance(pos, target).item() == pytest.approx(mean)
    assert vertex_rmse(pos, target).item() == pytest.approx(math.sqrt(square))
    edge = pair[1].edges_unique_length.mean()
    assert vertex_distance(pos, target, face).item() == pytest.approx(mean / edge)


def test_angles(pair):
    pos, target, face = tensors(*pair)
    dot = (pair[0].face_normals * pair[1].face_normals).sum(axis=1)
    expected = np.degrees(np.arccos(np.clip(dot, -1, 1))).mean()
    assert expected > 10
    assert normal_angle(pos, target, face).item() == pytest.approx(expected, rel=1e-6)
    turned = face.flip(0)
    assert normal_angle(pos, target, turned).item() == pytest.approx(expected, rel=1e-6)
    assert normal_angle(target, target, face) < 1e-12


def test_small_angles_are_exact():
    """The cosine of a microdegree is 1 in single precision and nearly so in double."""
    target = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for angle in (1e-6, 1e-3, 179.0):
        turn = math.radians(angle)
        pos = target.double()
        pos[2] = torch.tensor([0.0, math.cos(turn), math.sin(turn)], dtype=torch.float64)
        found = normal_angle(pos, target, torch.tensor([[0], [1], [2]]))
        assert found.item() == pytest.approx(angle, rel=1e-9)


def test_faces_without_normal():
    target = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    face = torch.tensor([[0, 0], [1, 1], [2, 3]])
    assert normal_angle(target, target, face) == 0  # the second has none, and does not count
    pos = target.clone()
    pos[2] = torch.tensor([3.0, 0.0, 0.0])
    assert normal_angle(pos, target, face) == 90


def test_precision_of_the_input(pair):
    pos, target, face = tensors(*pair)
    single = normal_angle(pos.float(), target.float(), face)
    assert single.dtype == torch.float64
    assert single.item() == pytest.approx(normal_angle(pos, target, face).item(), rel=1e-5)


def test_noise_along_normals():
    """NormalNoise of sigma has the error sigma, in units of the mean edge length."""
    data = from_mesh(trimesh.creation.icosphere(subdivisions=4), dtype=torch.float64)
    noisy = NormalNoise(0.25, keep="clean", seed=0)(data)
    edge = trimesh.creation.icosphere(subdivisions=4).edges_unique_length.mean()
    assert vertex_rmse(noisy.pos, noisy.clean).item() / edge == pytest.approx(0.25, rel=0.05)


def test_errors():
    with pytest.raises(ValueError, match=r"the same shape \[N, 3\] \(got \[4, 3\] and \[5, 3\]\)"):
        vertex_rmse(torch.zeros(4, 3), torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"the same shape \[N, 3\] \(got \[4, 2\] and \[4, 2\]\)"):
        vertex_distance(torch.zeros(4, 2), torch.zeros(4, 2))
    with pytest.raises(ValueError, match="the same shape"):
        normal_angle(torch.zeros(4, 3), torch.zeros(5, 3), torch.zeros(3, 0, dtype=torch.long))


def test_surface_distance_needs_no_correspondence():
    sphere = trimesh.creation.icosphere(4)
    target = torch.from_numpy(np.array(sphere.vertices)).float() + 1e4
    face = torch.from_numpy(np.array(sphere.faces).T.copy())
    direction = torch.nn.functional.normalize(torch.randn(300, 3), dim=1)
    pos = direction * 1.5 + 1e4
    assert float(surface_distance(pos, target, face)) == pytest.approx(0.5, abs=5e-3)
    assert float(surface_distance(target + 1, target)) > 0.1
    assert float(surface_distance(target[:5], target)) == 0.0
