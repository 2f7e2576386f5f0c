"""The parts of the denoiser against loops, exact filters and known surfaces."""

import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.functional import brute_force_filter
from permutogeo.models import MeshDenoiser
from permutogeo.models._cascade import begin
from permutogeo.models._normal_filter import Candidates, NormalStage
from permutogeo.models._samples import Samples
from permutogeo.models._triangles import Triangles
from permutogeo.models._vertex_update import VertexUpdate
from permutogeo.transforms._mesh import face_geometry

GENERATOR = torch.Generator().manual_seed(0)


def icosphere(times=3, noise=0.0):
    mesh = trimesh.creation.icosphere(times)
    pos = torch.from_numpy(np.array(mesh.vertices)).float()
    pos = pos + noise * torch.randn(pos.shape, generator=GENERATOR)
    return pos, torch.from_numpy(np.array(mesh.faces).T.copy()).long()


def test_vertex_update_is_that_of_a_loop():
    pos, face = icosphere(1)  # no triangle is folded: the normals wished for are near
    wish = torch.nn.functional.normalize(
        face_geometry(pos, face)[0] + 0.2 * torch.randn(80, 3, generator=GENERATOR), dim=1
    )
    expected = pos.double().numpy()
    normal = wish.double().numpy()
    for _ in range(3):
        before = expected.copy()
        for vertex in range(len(pos)):
            own = [t for t in range(80) if vertex in face[:, t]]
            center = [before[face[:, t]].mean(0) for t in own]
            steps = [
                normal[t] * (normal[t] @ (c - before[vertex]))
                for t, c in zip(own, center, strict=True)
            ]
            expected[vertex] = before[vertex] + np.mean(steps, 0)
    found = VertexUpdate(face, len(pos))(pos, wish, 3)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_vertex_update_unfolds():
    """Noise along the surface folds triangles over; with the true normals they lie flat again."""
    u, v = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    flat = torch.stack([u.flatten(), v.flatten(), torch.zeros(144)], 1)
    corner = torch.arange(144).view(12, 12)
    a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
    face = torch.cat([torch.stack([a, b, c]).flatten(1), torch.stack([a, c, d]).flatten(1)], 1)
    pos = flat + 0.35 * torch.randn(144, 3, generator=torch.Generator().manual_seed(1))
    up = torch.tensor([0.0, 0.0, 1.0]).expand(face.size(1), 3)
    assert (face_geometry(pos, face)[0][:, 2] < 0).sum() > 5
    moved = VertexUpdate(face, 144)(pos, up, 30)
    assert (face_geometry(moved, face)[0][:, 2] < 0.9).sum() <= 1


def test_the_breadth_of_a_triangle_is_its_least_height():
    pos = torch.tensor([[0.0, 0, 0], [4, 0, 0], [0, 3, 0], [2, 0, 0]])
    pieces = Triangles(pos, torch.tensor([[0, 0], [1, 1], [2, 3]]))
    assert pieces.breadth(pos).tolist() == pytest.approx([2.4, 0.0])


def test_neighbors_are_those_of_trimesh():
    pos, face = icosphere(2)
    pairs = Triangles(pos, face).neighbors()
    mesh = trimesh.Trimesh(pos.numpy(), face.t().numpy(), process=False)
    found = {tuple(sorted(pair)) for pair in pairs.t().tolist()}
    assert found == {tuple(sorted(pair)) for pair in mesh.face_adjacency.tolist()}


def test_smoothing_is_taubins():
    pos, face = icosphere(2, noise=0.02)
    mesh = trimesh.Trimesh(pos.double().numpy(), face.t().numpy(), process=False)
    operator = trimesh.smoothing.laplacian_calculation(mesh, equal_weight=True)
    trimesh.smoothing.filter_taubin(
        mesh, lamb=0.5, nu=0.53, iterations=6, laplacian_operator=operator
    )
    found = Triangles(pos, face).smooth(pos, 3)  # trimesh counts half steps
    np.testing.assert_allclose(found.numpy(), mesh.vertices, atol=1e-5)


def test_candidates_are_near_the_exact_means():
    pos, face = icosphere(3, noise=0.02)
    pieces = Triangles(pos, face)
    surface = begin(pieces, pos / pieces.spacing)
    stage = NormalStage([(2.0, None), (2.0, 0.6)])
    vector = stage.candidates(surface).vector
    measured = surface.measured_area.unsqueeze(1) * surface.measured
    for index, feature in enumerate(
        [surface.center / 2, torch.cat([surface.center / 2, surface.estimate / 0.6], 1)]
    ):
        exact = torch.nn.functional.normalize(brute_force_filter(measured, feature), dim=1)
        cosine = (exact * vector[:, 6 + 2 * index]).sum(dim=1)
        noisy = (exact * surface.measured).sum(dim=1)
        assert cosine.mean() > 0.998 > noisy.mean()


def test_inputs_do_not_change_with_rotations():
    pos, face = icosphere(2, noise=0.02)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=GENERATOR).double())[0]
    turn = turn * torch.linalg.det(turn)
    stage = NormalStage([(2.0, None), (2.0, 0.6)])
    candidates = stage.candidates(begin(Triangles(pos, face), pos / 0.3))
    candidates = Candidates(candidates.vector.double(), candidates.scalar.double())
    turned = Candidates(candidates.vector @ turn.T, candidates.scalar)
    expected = stage.inputs(candidates)
    torch.testing.assert_close(stage.inputs(turned), expected, rtol=0, atol=1e-8)
    assert len(expected[0]) == stage.num_inputs
    for lin in stage.lins:
        torch.nn.init.normal_(lin.weight, std=0.2)
    stage = stage.double()
    torch.testing.assert_close(stage.mix(turned), stage.mix(candidates) @ turn.T, rtol=0, atol=1e-6)


def test_normals_of_a_cloud_look_outward():
    pos = torch.nn.functional.normalize(torch.randn(2000, 3, generator=GENERATOR), dim=1).double()
    two = torch.cat([pos, pos + torch.tensor([5.0, 0.0, 0.0])])
    normal, _, area = Samples(two).measure(two)
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
    spacing = Samples(torch.from_numpy(np.array(point))).spacing
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
