"""FaceNormals, VertexNormals, SmoothNormals, NormalNoise, Displacement, FacesToPoints."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay
from torch_geometric.data import Data
from torch_geometric.transforms import Compose

from permutogeo.data import from_mesh
from permutogeo.transforms import (
    Displacement,
    FaceNormals,
    FacesToPoints,
    NormalNoise,
    SmoothNormals,
    VertexNormals,
)
from permutogeo.transforms._mesh import corner_sums, edges, face_graph, mean_edge_length

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


def damaged():
    """An open sheet, a closed shape, a face twice, two degenerate faces and an unused vertex."""
    closed = trimesh.creation.icosphere(subdivisions=0)
    corner = np.array([0, 1, 2, 4, 5, 6])
    sheet = np.concatenate([np.stack([corner, corner + 1, corner + 5], axis=1),
                            np.stack([corner + 1, corner + 5, corner + 4], axis=1)])  # fmt: skip
    flat = np.array([[0, 0, 1], [3, 3, 3], sheet[4]])
    face = np.concatenate([closed.faces, sheet + 12, flat + 12])
    pos = np.concatenate([closed.vertices, np.random.default_rng(3).random((13, 3))])
    return from_mesh(pos, face, dtype=torch.float64)


@pytest.mark.parametrize("shared", [1, 2])
def test_face_graph(shared):
    data = damaged()
    faces = [set(t) for t in data.face.t().tolist()]
    expected = [[float(len(s & t) >= shared) for s in faces] for t in faces]
    np.testing.assert_array_equal(face_graph(data.face, data.num_nodes, shared).toarray(), expected)


def test_corner_sums():
    data = damaged()
    value = torch.rand(3, data.face.size(1), dtype=torch.float64)
    expected = torch.zeros(data.num_nodes, dtype=torch.float64)
    for corner in range(3):
        for t in range(data.face.size(1)):
            expected[data.face[corner, t]] += value[corner, t]
    ours = corner_sums(data.face, data.num_nodes) @ value.reshape(-1).numpy()
    torch.testing.assert_close(torch.from_numpy(ours), expected)


def smooth_by_loops(pos, face, iterations, shared):
    """The formulas of the docstring, face by face and vertex by vertex."""
    faces = face.t().tolist()
    for _ in range(iterations):
        weighted, centers = [], []
        for a, b, c in faces:
            weighted.append(torch.linalg.cross(pos[b] - pos[a], pos[c] - pos[a]) / 2)
            centers.append((pos[a] + pos[b] + pos[c]) / 3)
        means = []
        for t in faces:
            near = [i for i, s in enumerate(faces) if len(set(s) & set(t)) >= shared]
            total = sum((weighted[i] for i in near), torch.zeros(3).double())
            means.append(total / total.norm().clamp(min=1e-300))
        new = []
        for v in range(len(pos)):
            around = [i for i, t in enumerate(faces) if v in t and weighted[i].norm() > 0]
            area = sum(weighted[i].norm() for i in around)
            moves = [weighted[i].norm() * ((centers[i] - pos[v]) @ means[i]) * means[i]
                     for i in around]  # fmt: skip
            new.append(pos[v] + sum(moves) / area if around else pos[v])
        pos = torch.stack(new)
    return pos


@pytest.mark.parametrize(("neighbors", "shared"), [("vertex", 1), ("edge", 2)])
def test_smoothing_is_that_of_the_paper(neighbors, shared):
    data = damaged()
    expected = smooth_by_loops(data.pos, data.face, 3, shared)
    assert (expected - data.pos).norm(dim=1).max() > 0.1
    torch.testing.assert_close(SmoothNormals(3, neighbors)(data).pos, expected)
    assert torch.equal(SmoothNormals(0, neighbors)(data).pos, data.pos)
    assert torch.equal(expected[-1], data.pos[-1])  # no face moves it


def test_a_plane_stays_a_plane():
    """Normals agree already, so that no vertex has a reason to move, nor at the border."""
    xy = np.random.default_rng(0).random((40, 2))
    pos = np.column_stack([xy, 1 + xy @ [0.3, -0.2]])
    data = from_mesh(pos, Delaunay(xy).simplices, dtype=torch.float64)
    torch.testing.assert_close(SmoothNormals(5)(data).pos, data.pos)


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


def test_noise_of_each_vertex_is_drawn_alone(sphere):
    """Neither the seed of one call nor the noise of one vertex says anything about another."""
    normal = VertexNormals()(sphere).normal
    first, second = (
        ((NormalNoise(0.2, seed=seed)(sphere).pos - sphere.pos) * normal).sum(1) for seed in (0, 1)
    )
    start, end = edges(sphere.face)
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.15
    assert abs(torch.corrcoef(torch.stack([first[start], first[end]]))[0, 1]) < 0.15
    generator = torch.Generator().manual_seed(0)
    noise = NormalNoise(0.2, generator=generator)
    assert torch.equal(((noise(sphere).pos - sphere.pos) * normal).sum(1), first)
    assert not torch.equal(noise(sphere).pos, noise(sphere).pos)


def test_displacements_lead_back(sphere):
    steps = [NormalNoise(0.3, keep="clean", seed=0), SmoothNormals(4, keep="noisy")]
    steps += [Displacement("noisy"), Displacement("clean", attr="y")]
    data = Compose(steps)(sphere)
    torch.testing.assert_close(data.pos + data.x, NormalNoise(0.3, seed=0)(sphere).pos)
    torch.testing.assert_close(data.pos + data.y, sphere.pos)
    flat = Data(pos=torch.rand(5, 2), other=torch.rand(5, 2))
    assert torch.equal(Displacement("other")(flat).x, flat.other - flat.pos)
    flat.other = flat.other[:4]
    with pytest.raises(ValueError, match=r"'other' of the shape of 'pos', \[5, 2\] \(got \[4, 2"):
        Displacement("other")(flat)


@pytest.mark.parametrize("count", [0, 3])
def test_no_faces(count):
    data = Data(pos=torch.rand(count, 3), face=torch.zeros(3, 0, dtype=torch.long))
    for transform in (NormalNoise(0.3), SmoothNormals(2), FaceNormals(), VertexNormals()):
        assert torch.equal(transform(data).pos, data.pos)
    assert FaceNormals()(data).face_normal.shape == (0, 3)
    assert torch.equal(VertexNormals()(data).normal, torch.zeros(count, 3))
    assert FacesToPoints()(data).num_nodes == 0


def test_faces_to_points(box):
    box.x, box.label = torch.rand(8, 2).double(), torch.arange(8)
    box.face_label, box.name_of, box.y = torch.arange(12), "box", torch.tensor([1])
    out = FacesToPoints()(FaceNormals()(box))
    assert set(out.to_dict()) == {"pos", "normal", "area", "x", "label", "name_of", "y"}
    assert out.num_nodes == 12 and out.label.tolist() == list(range(12))
    assert torch.equal(out.x, box.x[box.face].mean(0))
    faces = FaceNormals()(box)
    assert torch.equal(out.normal, faces.face_normal) and torch.equal(out.pos, faces.face_center)
