"""Errors against a reference, their unit and color scale."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.viz.scene import make_scene, round_up, vertex_distances

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
    noisy, clean, truth = scene.shapes
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
    assert scene.shapes[0].error is None and scene.shapes[1].error is not None


def test_a_named_reference(trio):
    scene = scene_of(trio, error="clean")
    assert scene.measure == "Distance to clean"
    assert [shape.error is None for shape in scene.shapes] == [False, True, False]


def test_the_unit_of_clouds():
    scene = scene_of({"a": Data(pos=torch.rand(40, 3)), "b": Data(pos=torch.rand(50, 3))})
    assert scene.unit == "mean spacing"


def test_equal_meshes_have_no_error(make_ball):
    scene = scene_of({"a": make_ball(), "b": make_ball()})
    assert scene.shapes[1].error_max == 0 and scene.scale_end == 1


def test_other_triangles_are_compared_with_the_surface():
    """Points above a square of two triangles: distances that are known."""
    target = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]) + 1000
    face = np.array([[0, 1, 2], [0, 2, 3]])
    pos = np.array([[0.3, 0.6, 0.2], [0.5, 0.5, -0.7], [2, 0.5, 0], [-3, -4, 0], [1, 2, 1]])
    expected = [0.2, 0.7, 1, 5, np.sqrt(2)]
    np.testing.assert_allclose(
        vertex_distances(pos + 1000, None, target, face), expected, rtol=1e-5
    )


def test_clouds_are_compared_with_the_nearest_point():
    rng = np.random.default_rng(0)
    pos, target = rng.random((40, 3)), rng.random((50, 3))
    expected = np.linalg.norm(pos[:, None] - target, axis=2).min(axis=1)
    np.testing.assert_allclose(vertex_distances(pos, None, target, None), expected)


@pytest.mark.parametrize(("value", "end"), [(0, 1), (0.7, 0.8), (1, 1), (0.05, 0.05), (8.1, 10)])
def test_the_scale_ends_at_a_round_number(value, end):
    assert round_up(value) == pytest.approx(end)


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
