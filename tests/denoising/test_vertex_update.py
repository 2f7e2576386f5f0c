import numpy as np
import pytest
import torch

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.vertex_update import VertexUpdate

GENERATOR = torch.Generator().manual_seed(0)


def test_vertex_update_is_that_of_a_loop(icosphere):
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


def test_settling_goes_on_where_faces_agree_with_their_normals(icosphere):
    """Low waves over a sphere whose normals are known in one half, and wrong in the other."""
    clean, face = icosphere(3)
    true, center, _ = face_geometry(clean, face)
    update = VertexUpdate(face, len(clean))
    pos = clean * (1 + 0.002 * torch.sin(7 * clean[:, :1]))
    wrong = true + 0.3 * torch.randn(true.shape, generator=torch.Generator().manual_seed(0))
    known = center[:, 2] > 0
    wish = torch.nn.functional.normalize(torch.where(known.unsqueeze(1), true, wrong), dim=1)
    found = update.settle(pos, wish, 30)
    chord = [(face_geometry(p, face)[0] - true).norm(dim=1) for p in (pos, found)]
    inside = center[:, 2] > 0.5
    assert chord[1][inside].mean() < 0.5 * chord[0][inside].mean()
    torch.testing.assert_close(found[clean[:, 2] < -0.5], pos[clean[:, 2] < -0.5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_means_are_those_of_loops(dtype):
    """Also with a face of a repeated vertex, and a vertex without faces."""
    face = torch.tensor([[0, 0, 4, 1, 4], [1, 2, 4, 3, 2], [2, 3, 1, 2, 3]])
    pos = torch.randn(6, 3, generator=GENERATOR, dtype=dtype)
    x = torch.randn(5, 3, generator=GENERATOR, dtype=dtype)
    update, corners = VertexUpdate(face, 6), face.t().tolist()
    torch.testing.assert_close(update.centers(pos), pos[face].mean(dim=0))
    for vertex in range(6):
        own = [(t, k) for t in range(5) for k in range(3) if corners[t][k] == vertex]
        mean = sum(x[t] for t, _ in own) / max(len(own), 1) + torch.zeros(3, dtype=dtype)
        around = [corners[t][(k + shift) % 3] for t, k in own for shift in (1, 2)] or [vertex]
        torch.testing.assert_close(update.triangle_mean(x)[vertex], mean)
        torch.testing.assert_close(update.neighbor_mean(pos)[vertex], pos[around].mean(dim=0))
