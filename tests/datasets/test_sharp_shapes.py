import numpy as np
import pytest
import torch
import trimesh
from scipy.ndimage import gaussian_filter, label, map_coordinates
from skimage.measure import marching_cubes, points_in_poly
from torch_geometric.loader import DataLoader

from permutogeo.datasets import SharpShapes
from permutogeo.datasets._contour import contour
from permutogeo.datasets._patchwork import CORNER, CREASE, Edges, Tangled, quality, value_and_slope
from permutogeo.datasets._primitives import (
    ball,
    blended,
    box,
    column,
    cone,
    cylinder,
    half_space,
    rounded_box,
    slab,
    torus,
    tube,
    turned,
    twisted,
)
from permutogeo.datasets._sharp_recipes import RECIPES
from permutogeo.datasets._solid_mesh import check, mesh_of

TURN = trimesh.transformations.rotation_matrix(1.0, [1, 2, 3])[:3, :3]
SMALL = (600, 900)


def as_trimesh(pos, face):
    return trimesh.Trimesh(np.asarray(pos, float), np.asarray(face), process=False)


def test_box():
    """Volume and area are exact, and creases are the twelve edges: no corner is lost."""
    half = np.array([0.7, 0.5, 0.4])
    mesh = mesh_of(box(half).moved(TURN), 1500)
    check(mesh, box(half).moved(TURN))
    solid = as_trimesh(mesh.pos @ TURN, mesh.face)
    assert solid.is_watertight and solid.is_winding_consistent and solid.euler_number == 2
    assert solid.volume == pytest.approx(8 * half.prod(), rel=1e-9)
    assert solid.area == pytest.approx(8 * (half[0] * half[1:].sum() + half[1] * half[2]), rel=1e-9)
    assert mesh.length[mesh.is_crease].sum() == pytest.approx(8 * half.sum(), rel=1e-9)
    assert (mesh.rank == CORNER).sum() == 8
    np.testing.assert_allclose(np.abs(solid.vertices[mesh.rank == CORNER]), np.tile(half, (8, 1)))
    angle = solid.face_adjacency_angles
    assert (np.minimum(angle, np.abs(angle - np.pi / 2)) < 1e-6).all()
    assert 1300 < len(mesh.face) < 1700


def test_creases_of_curved_sides():
    """The rims of a hole through a box are circles, and its wall lies on the cylinder."""
    solid = box((0.8, 0.7, 0.5)) - tube(0.3)
    mesh = mesh_of(solid, 2500)
    check(mesh, solid)
    radius = np.hypot(mesh.pos[:, 0], mesh.pos[:, 1])
    rim = (mesh.rank == CREASE) & (radius < 0.4)
    assert rim.sum() > 30
    np.testing.assert_allclose(radius[rim], 0.3, atol=1e-9)
    np.testing.assert_allclose(np.abs(mesh.pos[rim, 2]), 0.5, atol=1e-9)
    found = as_trimesh(mesh.pos, mesh.face)
    assert found.euler_number == 0
    assert found.volume == pytest.approx(8 * 0.8 * 0.7 * 0.5 - np.pi * 0.09, rel=4e-3)
    # Edges inside a side are as flat as a chord of this length on the cylinder.
    smooth = as_trimesh(mesh.pos, mesh.face).face_normals[mesh.edges.faces[~mesh.is_crease]]
    assert np.arccos(np.clip((smooth[:, 0] * smooth[:, 1]).sum(1), -1, 1)).max() < 0.4


def test_tip_of_a_cone():
    solid = cone(0.6, 1.0).moved(TURN)
    mesh = mesh_of(solid, 1200)
    check(mesh, solid)
    assert np.linalg.norm(mesh.pos - TURN[:, 2], axis=1).min() < 1e-12
    volume = as_trimesh(mesh.pos, mesh.face).volume
    assert volume == pytest.approx(np.pi * 0.36 / 3, rel=0.02)


STAR = np.array([[1, 0], [0.3, 0.2], [0.1, 1], [-0.2, 0.3], [-1, -0.1], [-0.1, -0.2], [0.1, -0.9]])


@pytest.mark.parametrize("outline", [STAR, STAR[::-1], STAR[:3]], ids=["left", "right", "convex"])
def test_polygons(outline):
    """A column is where the polygon is, whichever way round it is given."""
    points = np.random.default_rng(0).uniform(-1.2, 1.2, (3000, 3))
    value, index = column(outline)(points)
    np.testing.assert_array_equal(value < 0, points_in_poly(points[:, :2], outline))
    assert index.max() < len(column(outline).surfaces)


SOLIDS = {
    "difference": (box((0.5, 0.6, 0.7)) - ball(0.6).moved(shift=(0.5, 0, 0))).moved(TURN),
    "twisted": twisted(column(STAR) & slab(0.5), 1.0, 0.3),
    "turned": turned(np.array([[-1, -0.5], [0.8, -0.5], [0.4, 0.1], [0.6, 0.5], [-1, 0.5]])),
    "torus": torus(0.7, 0.2) | cylinder(0.2, 0.5),
    "blended": blended([ball(0.5).surfaces[0], rounded_box((0.8, 0.3, 0.2), 0.1).surfaces[0]], 0.2),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_solids_name_their_surface(name):
    """The value of a solid is that of the surface it names, outward on both sides."""
    solid = SOLIDS[name]
    points = np.random.default_rng(1).uniform(-1, 1, (500, 3))
    value, index = solid(points)
    assert (value < 0).any() and (value > 0).any()
    for k in np.unique(index):
        np.testing.assert_allclose(solid.surfaces[k](points[index == k]), value[index == k])


def test_slopes():
    points = np.random.default_rng(2).uniform(-1, 1, (50, 3))
    value, slope = value_and_slope(ball(0.5).surfaces[0], points)
    norm = np.linalg.norm(points, axis=1)
    np.testing.assert_allclose(value, norm - 0.5, atol=1e-12)
    np.testing.assert_allclose(slope, points / norm[:, None], atol=1e-4)


def test_contour_has_the_topology_of_marching_cubes():
    noise = np.random.default_rng(3).standard_normal((28, 28, 28))
    field = np.pad(-gaussian_filter(noise, 3.0) - 0.01, 2, constant_values=1.0)
    field[label(field < 0)[0] > 1] = 1.0  # the largest part alone is asked for

    def values(points):
        return map_coordinates(field, points.T, order=1), np.zeros(len(points), np.int64)

    pos, quads, _ = contour(values, np.zeros(3), 1.0, field.shape)
    found = as_trimesh(pos, np.concatenate([quads[:, :3], quads[:, [0, 2, 3]]]))
    vertices, faces, *_ = marching_cubes(field, 0.0)
    expected = trimesh.Trimesh(vertices, faces)
    assert found.is_watertight and found.is_winding_consistent
    assert found.euler_number == expected.euler_number
    assert found.volume == pytest.approx(abs(expected.volume), rel=0.05)


def test_open_and_branching_meshes_are_refused():
    with pytest.raises(Tangled):
        Edges.of(np.array([[0, 1, 2]]))
    with pytest.raises(Tangled):
        Edges.of(np.array([[0, 1, 2], [1, 0, 2], [0, 1, 3], [1, 0, 3]]))
    with pytest.raises(Tangled, match="empty"):
        mesh_of(ball(0.5) & half_space((1, 0, 0), -1), 500)


def test_str_and_errors():
    assert str(SharpShapes(5)) == "SharpShapes(5)"
    with pytest.raises(ValueError, match=r"SharpShapes: Expected a number of 1 or more \(got 0\)"):
        SharpShapes(0)
    with pytest.raises(ValueError, match=r"SharpShapes: Expected 'num_faces' .*got \(900, 600\)"):
        SharpShapes(3, num_faces=(900, 600))
    with pytest.raises(ValueError, match=r"Expected a seed of 0 or more \(got -1\)"):
        SharpShapes(3, seed=-1)


@pytest.fixture(scope="module")
def shapes():
    return SharpShapes(len(RECIPES), num_faces=SMALL)


@pytest.mark.parametrize("kind", range(len(RECIPES)), ids=[recipe.__name__ for recipe in RECIPES])
def test_shapes_are_sound(shapes, kind):
    data = shapes[kind]
    mesh = as_trimesh(data.pos, data.face.T)
    assert mesh.is_watertight and mesh.is_winding_consistent and mesh.volume > 0
    assert mesh.body_count == 1
    assert 0.7 * SMALL[0] < len(mesh.faces) < 1.4 * SMALL[1]
    assert quality(mesh.triangles).min() > 0.05
    edges = Edges.of(mesh.faces)
    length = np.linalg.norm(np.diff(mesh.vertices[edges.ends], axis=1)[:, 0], axis=1)
    assert length.std() < 0.35 * length.mean()
    # Inside a patch, neighbors bend little; creases lie between patches.
    patch = data.face_patch.numpy()[edges.faces]
    normal = mesh.face_normals[edges.faces]
    angle = np.degrees(np.arccos(np.clip((normal[:, 0] * normal[:, 1]).sum(axis=1), -1, 1)))
    inner = patch[:, 0] == patch[:, 1]
    assert np.percentile(angle[inner], 98) < 70
    if (~inner).any():
        assert np.median(angle[~inner]) > 2 * np.median(angle[inner])


def test_shapes_have_creases_of_all_angles(shapes):
    angles = []
    for data in shapes:
        edges = Edges.of(data.face.t().numpy())
        crease = np.diff(data.face_patch.numpy()[edges.faces], axis=1)[:, 0] != 0
        normal = as_trimesh(data.pos, data.face.T).face_normals[edges.faces[crease]]
        angles.append(np.degrees(np.arccos(np.clip((normal[:, 0] * normal[:, 1]).sum(1), -1, 1))))
    share = np.histogram(np.concatenate(angles), [0, 20, 50, 80, 100, 180])[0]
    assert (share > 0).all()


def test_a_shape_depends_on_seed_and_index_alone(shapes):
    again = SharpShapes(50, num_faces=SMALL)[3]
    for name in ("pos", "face", "face_patch"):
        assert torch.equal(again[name], shapes[3][name])
    other = SharpShapes(50, num_faces=SMALL, seed=1)[3]
    assert other.pos.shape != again.pos.shape or not torch.equal(other.pos, again.pos)


def test_made_once_and_transformed(monkeypatch):
    made = []
    make = SharpShapes.make

    def counting(self, index):
        made.append(index)
        return make(self, index)

    def grow(data):
        data.pos = data.pos * 2
        return data

    monkeypatch.setattr(SharpShapes, "make", counting)
    dataset = SharpShapes(20, SMALL, transform=grow, pre_transform=grow)
    first, second = dataset[3], dataset[3]
    assert made == [3]
    assert torch.equal(first.pos, second.pos)
    assert first.pos.abs().max() > 2.5
    batch = next(iter(DataLoader(dataset[[3, 3]], batch_size=2)))
    assert batch.face_patch.shape == (batch.face.size(1),)
    assert int(batch.face.max()) == batch.num_nodes - 1
