"""Reading, decimation and scaling of shapes."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.viz.camera import make_camera
from permutogeo.viz.scene import make_scene
from permutogeo.viz.shapes import decimate, mean_spacing, read_shapes

LARGE = 10**6


def scene_of(meshes, error=None, max_faces=LARGE):
    return make_scene(meshes, error, max_faces, "mesh_report")


def test_unreferenced_vertices_do_not_widen_the_frame(make_ball):
    data = make_ball()
    expected = scene_of({"a": data}).shapes[0]
    data.pos = torch.cat([torch.tensor([[1e3, 0, 0]]), data.pos])
    data.face = data.face + 1
    shape = scene_of({"a": data}).shapes[0]
    np.testing.assert_allclose(shape.pos, expected.pos)
    np.testing.assert_array_equal(shape.face, expected.face)
    assert shape.num_points == expected.num_points + 1


def test_equal_triangles_are_held_once(trio):
    faces = [shape.face for shape in scene_of(trio).shapes]
    assert faces[0] is faces[1] is faces[2]


def test_large_meshes_are_drawn_with_fewer(make_ball):
    meshes = {"noisy": make_ball(5, 0.01), "ground truth": make_ball(5)}
    full, scene = scene_of(meshes), scene_of(meshes, max_faces=3000)
    noisy, truth = scene.shapes
    assert noisy.face is truth.face
    assert 1000 < len(noisy.face) <= 3000
    assert noisy.is_reduced and not full.shapes[0].is_reduced
    assert noisy.num_faces == meshes["noisy"].face.size(1)
    # The numbers are those of the whole.
    assert (noisy.error_mean, noisy.error_max) == (
        full.shapes[0].error_mean,
        full.shapes[0].error_max,
    )
    assert noisy.face.max() < len(noisy.pos) == len(noisy.error)


def test_what_is_left_of_a_mesh_lies_where_it_lay(make_ball):
    (shape,) = read_shapes({"a": make_ball(4, 0.01)}, "mesh_report")
    (fewer,) = decimate([shape], 500)
    assert len(fewer.face) <= 500
    every = {tuple(row) for row in shape.pos.tolist()}
    assert {tuple(row) for row in fewer.pos.tolist()} <= every
    corner = fewer.pos[fewer.face]
    outward = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    assert ((outward * corner.mean(axis=1)).sum(axis=1) > 0).mean() > 0.95


def test_large_clouds_are_drawn_with_fewer():
    cloud = Data(pos=torch.rand(5000, 3), x=torch.rand(5000, 3))
    (shape,) = scene_of({"cloud": cloud}, max_faces=700).shapes
    assert len(shape.pos) == len(shape.color) == len(shape.normal) == 700
    assert shape.is_reduced and shape.num_points == 5000


def test_normals_of_a_flat_cloud():
    pos = torch.rand(200, 3) * torch.tensor([1.0, 1.0, 0.0])
    (shape,) = scene_of({"cloud": Data(pos=pos)}).shapes
    np.testing.assert_allclose(np.abs(shape.normal[:, 2]), 1, atol=1e-6)
    (shape,) = scene_of({"cloud": Data(pos=pos, normal=2 * pos + 1)}).shapes
    np.testing.assert_allclose(np.linalg.norm(shape.normal, axis=1), 1)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_clouds_of_few_points(count):
    (shape,) = scene_of({"cloud": Data(pos=torch.rand(count, 3))}).shapes
    assert np.isfinite(shape.pos).all() and np.isfinite(shape.normal).all()
    assert make_camera([shape], "y", None, "mesh_report").half.min() > 0


def test_one_place_only(make_ball):
    data = make_ball()
    data.pos = torch.ones_like(data.pos)
    scene = scene_of({"a": data, "b": data})
    assert all(np.isfinite(shape.pos).all() for shape in scene.shapes)
    assert scene.unit_length == 1


def test_inputs_are_not_changed(trio):
    before = {name: data.clone() for name, data in trio.items()}
    scene_of(trio, max_faces=100)
    for name, data in trio.items():
        assert torch.equal(data.pos, before[name].pos)
        assert torch.equal(data.face, before[name].face)


def broken(make_ball, **changes):
    data = make_ball()
    for name, value in changes.items():
        data[name] = value(data)
    return data


def spoil(data):
    pos = data.pos.clone()
    pos[7, 1] = float("nan")
    return pos


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pos": spoil}, "'bad': Expected finite values in 'pos' .got NaN or infinity in row 7"),
        ({"pos": lambda d: d.pos[:0]}, "'bad': Expected at least one point .got none"),
        ({"pos": lambda d: d.pos[:5]}, "'bad': Expected face indices from 0 to 4"),
        ({"pos": lambda d: d.pos[:, :2]}, r"'bad': Expected positions of shape \[N, 3\]"),
        ({"pos": lambda d: None}, "'bad': Expected 'pos' in data"),
    ],
)
def test_bad_meshes(changes, message, make_ball):
    meshes = {"good": make_ball(), "bad": broken(make_ball, **changes)}
    with pytest.raises(ValueError, match=f"^mesh_report, {message}"):
        scene_of(meshes)


def test_an_empty_cloud():
    with pytest.raises(ValueError, match="'a': Expected at least one point"):
        scene_of({"a": Data(pos=torch.zeros(0, 3), face=torch.zeros(3, 0, dtype=torch.long))})


def test_mean_spacing_of_a_grid():
    grid = np.stack(np.meshgrid(range(5), range(5), range(3)), axis=-1).reshape(-1, 3) * 0.5
    assert mean_spacing(grid) == pytest.approx(0.5)
    assert mean_spacing(grid[:1]) == 0
