"""What is shown, and how errors are measured."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.viz._camera import DISTANCE, look, project
from permutogeo.viz._panels import read_panels, reduced
from permutogeo.viz._scene import make_scene

LARGE = 10**6


def scene_of(meshes, error=None, max_faces=LARGE):
    return make_scene(meshes, error, max_faces, "mesh_report")


def arrays(data):
    return data.pos.double().numpy(), data.face.t().numpy()


def mean_edge(data):
    trimesh = pytest.importorskip("trimesh")
    return trimesh.Trimesh(*arrays(data), process=False).edges_unique_length.mean()


def test_errors_are_distances_in_mean_edges(trio):
    scene = scene_of(trio)
    noisy, clean, truth = scene.panels
    pos, _ = arrays(trio["ground truth"])
    edge = mean_edge(trio["ground truth"])
    expected = np.linalg.norm(arrays(trio["noisy"])[0] - pos, axis=1) / edge
    np.testing.assert_allclose(noisy.error, expected, rtol=1e-12)
    assert noisy.error_mean == pytest.approx(expected.mean())
    assert noisy.error_max == pytest.approx(expected.max())
    assert clean.error_mean < noisy.error_mean
    assert truth.error is None
    assert scene.measure == "Distance to ground truth"
    assert scene.unit_length == pytest.approx(edge)
    assert np.quantile(expected, 0.99) <= scene.scale_end <= 2 * expected.max()


def test_without_truth_the_first_is_the_reference(trio):
    del trio["ground truth"]
    scene = scene_of(trio)
    assert scene.measure == "Displacement from noisy"
    assert scene.panels[0].error is None and scene.panels[1].error is not None


def test_a_named_reference(trio):
    scene = scene_of(trio, error="clean")
    assert scene.measure == "Distance to clean"
    assert [panel.error is None for panel in scene.panels] == [False, True, False]


def test_the_unit_of_clouds():
    scene = scene_of({"a": Data(pos=torch.rand(40, 3)), "b": Data(pos=torch.rand(50, 3))})
    assert scene.unit == "mean spacing"


def test_equal_meshes_have_no_error(make_ball):
    scene = scene_of({"a": make_ball(), "b": make_ball()})
    assert scene.panels[1].error_max == 0 and scene.scale_end == 1


def test_everything_fits_the_unit_sphere_and_the_view(trio):
    for data in trio.values():
        data.pos = data.pos.double() * 7 + torch.tensor([5e6, -3e6, 100.0])
    scene = scene_of(trio)
    radius = max(np.linalg.norm(panel.pos, axis=1).max() for panel in scene.panels)
    assert radius == pytest.approx(1)
    camera = look(scene.panels, "z", (45.0, 10.0), "mesh_report")
    np.testing.assert_allclose(camera.rotation @ camera.rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(camera.rotation) == pytest.approx(1)
    for panel in scene.panels:
        plane, depth = project(panel.pos, camera.rotation)
        assert (np.abs(plane - camera.center) <= camera.half + 1e-12).all()
        assert depth.min() >= DISTANCE - 1 - 1e-9


@pytest.mark.parametrize(("up", "axis"), [("x", 0), ("y", 1), ("z", 2)])
def test_up_is_up(up, axis, make_ball):
    camera = look(scene_of({"a": make_ball()}).panels, up, (30.0, 20.0), "mesh_report")
    upward = camera.rotation @ np.eye(3)[axis]
    assert upward[1] == pytest.approx(np.cos(np.radians(20)))
    assert upward[0] == pytest.approx(0) and upward[2] > 0


@pytest.mark.parametrize("azimuth", [-120.0, 10.0, 170.0])
def test_an_open_surface_is_seen_from_where_it_faces(azimuth, make_ball):
    """Half a ball, whose dome points to the azimuth."""
    data = make_ball()
    angle = np.radians(azimuth)
    outward = torch.tensor([np.sin(angle), 0.0, np.cos(angle)], dtype=torch.float32)
    data.face = data.face[:, (data.pos[data.face] @ outward > 0.1).all(dim=0)]
    camera = look(scene_of({"half": data}).panels, "y", None, "mesh_report")
    assert (camera.rotation @ outward.numpy())[2] > 0.8


def test_unreferenced_vertices_do_not_widen_the_frame(make_ball):
    data = make_ball()
    expected = scene_of({"a": data}).panels[0]
    data.pos = torch.cat([torch.tensor([[1e3, 0, 0]]), data.pos])
    data.face = data.face + 1
    panel = scene_of({"a": data}).panels[0]
    np.testing.assert_allclose(panel.pos, expected.pos)
    np.testing.assert_array_equal(panel.face, expected.face)
    assert panel.num_points == expected.num_points + 1


def test_equal_triangles_are_held_once(trio):
    faces = [panel.face for panel in scene_of(trio).panels]
    assert faces[0] is faces[1] is faces[2]


def test_large_meshes_are_drawn_with_fewer(make_ball):
    meshes = {"noisy": make_ball(5, 0.01), "ground truth": make_ball(5)}
    full, scene = scene_of(meshes), scene_of(meshes, max_faces=3000)
    noisy, truth = scene.panels
    assert noisy.face is truth.face
    assert 1000 < len(noisy.face) <= 3000
    assert noisy.is_reduced and not full.panels[0].is_reduced
    assert noisy.num_faces == meshes["noisy"].face.size(1)
    # The numbers are those of the whole.
    assert (noisy.error_mean, noisy.error_max) == (
        full.panels[0].error_mean,
        full.panels[0].error_max,
    )
    assert noisy.face.max() < len(noisy.pos) == len(noisy.error)


def test_what_is_left_of_a_mesh_lies_where_it_lay(make_ball):
    (panel,) = read_panels({"a": make_ball(4, 0.01)}, "mesh_report")
    (fewer,) = reduced([panel], 500)
    assert len(fewer.face) <= 500
    every = {tuple(row) for row in panel.pos.tolist()}
    assert {tuple(row) for row in fewer.pos.tolist()} <= every
    corner = fewer.pos[fewer.face]
    outward = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    assert ((outward * corner.mean(axis=1)).sum(axis=1) > 0).mean() > 0.95


def test_large_clouds_are_drawn_with_fewer():
    cloud = Data(pos=torch.rand(5000, 3), x=torch.rand(5000, 3))
    (panel,) = scene_of({"cloud": cloud}, max_faces=700).panels
    assert len(panel.pos) == len(panel.color) == len(panel.normal) == 700
    assert panel.is_reduced and panel.num_points == 5000


def test_normals_of_a_flat_cloud():
    pos = torch.rand(200, 3) * torch.tensor([1.0, 1.0, 0.0])
    (panel,) = scene_of({"cloud": Data(pos=pos)}).panels
    np.testing.assert_allclose(np.abs(panel.normal[:, 2]), 1, atol=1e-6)
    (panel,) = scene_of({"cloud": Data(pos=pos, normal=2 * pos + 1)}).panels
    np.testing.assert_allclose(np.linalg.norm(panel.normal, axis=1), 1)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_clouds_of_few_points(count):
    (panel,) = scene_of({"cloud": Data(pos=torch.rand(count, 3))}).panels
    assert np.isfinite(panel.pos).all() and np.isfinite(panel.normal).all()
    assert look([panel], "y", None, "mesh_report").half.min() > 0


def test_one_place_only(make_ball):
    data = make_ball()
    data.pos = torch.ones_like(data.pos)
    scene = scene_of({"a": data, "b": data})
    assert all(np.isfinite(panel.pos).all() for panel in scene.panels)
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


def test_bad_arguments(trio):
    with pytest.raises(ValueError, match=r"Expected 1 to 8 'meshes' .got 0"):
        scene_of({})
    with pytest.raises(ValueError, match=r"Expected 1 to 8 'meshes' .got 9"):
        scene_of({str(i): trio["noisy"] for i in range(9)})
    with pytest.raises(ValueError, match=r"Expected 'error' to name one of 'noisy'.*'truth'"):
        scene_of(trio, error="truth")
    with pytest.raises(ValueError, match="Expected 'max_faces' >= 1"):
        scene_of(trio, max_faces=0)
    with pytest.raises(TypeError, match=r"'a': Expected torch_geometric.data.Data .got ndarray"):
        scene_of({"a": np.zeros((3, 3))})
    panels = scene_of(trio).panels
    with pytest.raises(ValueError, match="Expected 'up' in x, y, z"):
        look(panels, "w", None, "mesh_report")
    with pytest.raises(ValueError, match="Expected 'view' as two angles"):
        look(panels, "y", (float("nan"), 0), "mesh_report")
