"""FaceNormals, VertexNormals, SmoothNormals, NormalNoise, FacesToPoints."""

import math

import pytest
import torch
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.transforms import (
    FaceNormals,
    FacesToPoints,
    NormalNoise,
    SmoothNormals,
    VertexNormals,
)
from permutogeo.transforms._mesh import edges, face_neighbors, mean_edge_length

trimesh = pytest.importorskip("trimesh")


@pytest.fixture
def sphere():
    return from_mesh(trimesh.creation.icosphere(subdivisions=3), dtype=torch.float64)


@pytest.fixture
def box():
    return from_mesh(trimesh.creation.box(extents=(1, 2, 3)), dtype=torch.float64)


def test_face_normals(box):
    theirs = trimesh.creation.box(extents=(1, 2, 3))
    out = FaceNormals()(box)
    assert torch.allclose(out.face_normal, torch.tensor(theirs.face_normals.copy()))
    assert torch.allclose(out.face_center, torch.tensor(theirs.triangles_center.copy()))
    assert torch.allclose(out.face_area, torch.tensor(theirs.area_faces.copy()))


def test_degenerate_faces_have_no_normal():
    data = Data(pos=torch.rand(3, 3), face=torch.tensor([[0, 0], [0, 1], [1, 1]]))
    out = VertexNormals("angle")(FaceNormals()(data))
    assert (out.face_normal == 0).all() and (out.face_area == 0).all() and (out.normal == 0).all()
    assert torch.isfinite(SmoothNormals(2)(data).pos).all()
    assert torch.isfinite(NormalNoise()(data).pos).all()


@pytest.mark.parametrize("weight", ["area", "angle", "uniform"])
def test_vertex_normals(sphere, weight):
    normal = VertexNormals(weight)(sphere).normal
    assert (normal * sphere.pos).sum(1).min() > 0.999


def test_angle_weights_do_not_see_the_triangulation(box):
    normal = VertexNormals("angle")(box).normal
    assert torch.allclose(normal, box.pos.sign() / math.sqrt(3))
    with pytest.raises(ValueError, match=r"'weight' in area, angle, uniform \(got 'mass'\)"):
        VertexNormals("mass")


def test_edges(sphere, box):
    assert edges(box.face).shape == (2, 18)
    theirs = trimesh.creation.icosphere(subdivisions=3)
    expected = theirs.edges_unique_length.mean()
    assert mean_edge_length(sphere.pos, sphere.face).item() == pytest.approx(expected)


def test_face_neighbors(sphere):
    theirs = trimesh.creation.icosphere(subdivisions=3)
    target, source = face_neighbors(sphere.face, sphere.num_nodes, 2)
    pairs = {(a, b) for a, b in zip(target.tolist(), source.tolist(), strict=True) if a < b}
    assert pairs == {tuple(sorted(pair)) for pair in theirs.face_adjacency.tolist()}


def smooth_by_loops(pos, face, iterations):
    """The formulas of the docstring, face by face and vertex by vertex."""
    faces = face.t().tolist()
    for _ in range(iterations):
        normals, centers, areas = [], [], []
        for a, b, c in faces:
            cross = torch.linalg.cross(pos[b] - pos[a], pos[c] - pos[a])
            normals.append(cross / cross.norm())
            areas.append(cross.norm() / 2)
            centers.append((pos[a] + pos[b] + pos[c]) / 3)
        means = []
        for t in faces:
            near = [i for i, s in enumerate(faces) if set(s) & set(t)]
            total = sum(areas[i] * normals[i] for i in near)
            means.append(total / total.norm())
        new = []
        for v in range(len(pos)):
            around = [i for i, t in enumerate(faces) if v in t]
            if not around:
                new.append(pos[v])
                continue
            shift = sum(areas[i] * ((centers[i] - pos[v]) @ means[i]) * means[i] for i in around)
            new.append(pos[v] + shift / sum(areas[i] for i in around))
        pos = torch.stack(new)
    return pos


def test_smoothing_is_that_of_the_paper():
    data = from_mesh(trimesh.creation.icosphere(subdivisions=1), dtype=torch.float64)
    data.pos = torch.cat([data.pos + 0.1 * torch.randn_like(data.pos), torch.ones(1, 3).double()])
    expected = smooth_by_loops(data.pos, data.face, 3)
    torch.testing.assert_close(SmoothNormals(3)(data).pos, expected)
    assert torch.equal(SmoothNormals(0)(data).pos, data.pos)
    edge = SmoothNormals(3, neighbors="edge")(data).pos
    assert not torch.allclose(edge, expected)


def test_smoothing_removes_noise(sphere):
    sphere.normal = sphere.pos
    noisy = NormalNoise(0.3, keep="clean", seed=0)(sphere)
    smooth = SmoothNormals(10, keep="noisy")(noisy)
    before = (noisy.pos - sphere.pos).norm(dim=1).mean()
    after = (smooth.pos - sphere.pos).norm(dim=1).mean()
    assert after < 0.5 * before
    assert smooth.clean is sphere.pos and smooth.noisy is noisy.pos
    assert torch.equal(smooth.normal, VertexNormals()(smooth).normal)  # those of the new positions
    with pytest.raises(ValueError, match="'iterations' >= 0"):
        SmoothNormals(-1)
    with pytest.raises(ValueError, match="'neighbors' in vertex, edge"):
        SmoothNormals(neighbors="face")


def test_noise_is_along_the_normal(sphere):
    out = NormalNoise(0.2)(sphere)
    shift = out.pos - sphere.pos
    normal = VertexNormals()(sphere).normal
    along = (shift * normal).sum(1)
    assert (shift - along[:, None] * normal).abs().max() < 1e-12
    expected = 0.2 * mean_edge_length(sphere.pos, sphere.face)
    assert along.std().item() == pytest.approx(expected.item(), rel=0.1)
    assert torch.equal(NormalNoise(seed=1)(sphere).pos, NormalNoise(seed=1)(sphere).pos)
    assert torch.equal(NormalNoise(0.0)(sphere).pos, sphere.pos)
    for std in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="finite 'std' >= 0"):
            NormalNoise(std)


def test_faces_to_points(box):
    box.x, box.label = torch.rand(8, 2).double(), torch.arange(8)
    box.face_label, box.name_of, box.y = torch.arange(12), "box", torch.tensor([1])
    out = FacesToPoints()(FaceNormals()(box))
    assert set(out.to_dict()) == {"pos", "normal", "area", "x", "label", "name_of", "y"}
    assert out.num_nodes == 12 and out.label.tolist() == list(range(12))
    assert torch.equal(out.x, box.x[box.face].mean(0))
    faces = FaceNormals()(box)
    assert torch.equal(out.normal, faces.face_normal) and torch.equal(out.pos, faces.face_center)
