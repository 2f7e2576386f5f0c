import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import dijkstra
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.transforms import IsomapFeature

trimesh = pytest.importorskip("trimesh")


def brute_force(data, dim):
    """Classical scaling of all shortest paths."""
    count = data.num_nodes
    graph = np.zeros((count, count))
    pos = data.pos.double().numpy()
    for a, b in ((0, 1), (1, 2), (2, 0)):
        start, end = data.face[a].numpy(), data.face[b].numpy()
        graph[start, end] = graph[end, start] = np.linalg.norm(pos[start] - pos[end], axis=1)
    squared = dijkstra(graph) ** 2
    center = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * center @ squared @ center)
    return vectors[:, ::-1][:, :dim] * np.sqrt(values[::-1][:dim])


def strip(length=12, width=3):
    """A flat strip, whose first intrinsic coordinate is its length."""
    y, x = np.mgrid[0:width, 0:length]
    pos = np.stack([x, 0.7 * y, 0.05 * np.sin(3.0 * x + y)], axis=-1).reshape(-1, 3)
    corner = (np.arange(width - 1)[:, None] * length + np.arange(length - 1)).reshape(-1)
    lower = np.stack([corner, corner + 1, corner + length], axis=1)
    upper = np.stack([corner + 1, corner + length + 1, corner + length], axis=1)
    return from_mesh(pos, np.concatenate([lower, upper]), dtype=torch.float64)


def test_is_the_isomap_with_all_landmarks():
    data = strip()
    ours = IsomapFeature(dim=4, landmarks=1000)(data).intrinsic.numpy()
    theirs = brute_force(data, 4)
    for axis in range(4):
        sign = np.sign(ours[:, axis] @ theirs[:, axis])
        np.testing.assert_allclose(ours[:, axis], sign * theirs[:, axis], atol=1e-8)


def test_few_landmarks_are_close():
    data = strip(40, 5)
    every, few = (IsomapFeature(2, n)(data).intrinsic for n in (1000, 20))
    every, few = every - every.mean(0), few - few.mean(0)
    assert (every - few)[:, 0].norm() / every[:, 0].norm() < 0.02


def ellipsoid():
    """Vertices lie six times as dense at one end as at the other."""
    mesh = trimesh.creation.icosphere(subdivisions=3)
    pos = mesh.vertices * [3.0, 1.5, 1.0]
    pos[:, 0] += 0.22 * pos[:, 0] ** 2
    return from_mesh(pos, mesh.faces, dtype=torch.float64)


def test_landmarks_stand_for_all_vertices():
    """Axis by axis near the exact isomap, the nearer the more landmarks, at uneven density too."""
    data = ellipsoid()
    exact = brute_force(data, 3)
    errors = []
    for landmarks in (16, 64, 256):
        ours = IsomapFeature(3, landmarks)(data).intrinsic.numpy()
        ours = ours * np.sign((ours * exact).sum(axis=0))
        errors.append(np.linalg.norm(ours - exact) / np.linalg.norm(exact))
    assert errors[0] < 0.3 and errors[1] < 0.13 and errors[2] < 0.04
    assert errors == sorted(errors, reverse=True)


def test_bending_changes_nothing():
    flat = strip(40, 3)
    flat.pos[:, 2] = 0
    bent = flat.clone()
    angle = flat.pos[:, 0] / 10
    bent.pos[:, 0], bent.pos[:, 2] = 10 * angle.sin(), 10 * angle.cos()
    a, b = (IsomapFeature(2)(data).intrinsic[:, 0] for data in (flat, bent))
    a, b = a - a.mean(), b - b.mean()
    assert (a - (a @ b).sign() * b).abs().max() < 0.02 * (a.max() - a.min())


def test_axes_follow_positions():
    data = strip(30, 4)
    out = IsomapFeature(2)(data).intrinsic
    assert out[:, 0] @ (data.pos[:, 0] - data.pos[:, 0].mean()) > 0
    data.pos = -data.pos
    mirrored = IsomapFeature(2)(data).intrinsic
    torch.testing.assert_close(mirrored, -out)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_components_do_not_mix(dim):
    parts = [strip(12, 3), strip(5, 2), strip(7, 2)]
    offset, faces = 0, []
    for part in parts:
        faces.append(part.face + offset)
        offset += part.num_nodes
    pos = torch.cat([part.pos for part in parts] + [torch.zeros(6, 3).double()])  # six unused
    data = Data(pos=pos, face=torch.cat(faces, dim=1))
    out = IsomapFeature(dim)(data).intrinsic
    assert torch.isfinite(out).all() and out.shape == (len(pos), dim)
    alone = IsomapFeature(dim)(parts[0]).intrinsic
    torch.testing.assert_close(out[:36], alone)  # the largest stays at the origin
    label = torch.tensor([0] * 36 + [1] * 10 + [2] * 14 + [3, 4, 5, 6, 7, 8])
    distance = torch.cdist(out, out)
    width = (alone.max(0).values - alone.min(0).values).max()
    assert distance[label[:, None] != label].min() >= width - 1e-9


@pytest.mark.parametrize("dim", [1, 4])
def test_no_vertices(dim):
    data = Data(pos=torch.zeros(0, 3), face=torch.zeros(3, 0, dtype=torch.long))
    assert IsomapFeature(dim)(data).intrinsic.shape == (0, dim)


def test_only_unused_vertices():
    data = Data(pos=torch.rand(5, 3), face=torch.zeros(3, 0, dtype=torch.long))
    out = IsomapFeature(2)(data).intrinsic
    assert len(torch.unique(out, dim=0)) == 5 and torch.isfinite(out).all()


def test_one_triangle_and_equal_vertices():
    data = Data(pos=torch.ones(3, 3), face=torch.tensor([[0], [1], [2]]))
    assert (IsomapFeature(4)(data).intrinsic == 0).all()
    data.pos = torch.tensor([[0.0, 0, 0], [0, 0, 0], [1, 0, 0]])  # an edge of length 0
    out = IsomapFeature(2)(data).intrinsic
    torch.testing.assert_close(out[0], out[1])
    assert (out[2] - out[0]).norm().item() == pytest.approx(1.0, abs=1e-5)


def test_graphs_without_faces():
    data = strip()
    index = torch.cat([data.face[[0, 1]], data.face[[1, 2]], data.face[[2, 0]]], dim=1)
    graph = Data(pos=data.pos, edge_index=index)
    torch.testing.assert_close(IsomapFeature(3)(graph).intrinsic, IsomapFeature(3)(data).intrinsic)


def test_many_vertices():
    data = strip(500, 40)
    out = IsomapFeature()(data).intrinsic
    assert out.shape == (20000, 4) and torch.isfinite(out).all()


def test_errors():
    with pytest.raises(ValueError, match="'dim' >= 1"):
        IsomapFeature(0)
    with pytest.raises(ValueError, match="'landmarks' > 4"):
        IsomapFeature(4, landmarks=4)
    data = strip()
    data.pos[3, 0] = float("nan")
    with pytest.raises(ValueError, match=r"IsomapFeature: Expected finite 'pos'.*row 3"):
        IsomapFeature()(data)
