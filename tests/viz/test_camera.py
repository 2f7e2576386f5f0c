"""View, projection and lights."""

import numpy as np
import pytest
import torch

from permutogeo.viz.camera import (
    AMBIENT,
    DISTANCE,
    FILL_LIGHT,
    KEY_LIGHT,
    make_camera,
    project,
    shade,
)
from permutogeo.viz.scene import make_scene

LARGE = 10**6


def scene_of(meshes, error=None, max_faces=LARGE):
    return make_scene(meshes, error, max_faces, "mesh_report")


def test_everything_fits_the_unit_sphere_and_the_view(trio):
    for data in trio.values():
        data.pos = data.pos.double() * 7 + torch.tensor([5e6, -3e6, 100.0])
    scene = scene_of(trio)
    radius = max(np.linalg.norm(shape.pos, axis=1).max() for shape in scene.shapes)
    assert radius == pytest.approx(1)
    camera = make_camera(scene.shapes, "z", (45.0, 10.0), "mesh_report")
    np.testing.assert_allclose(camera.rotation @ camera.rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(camera.rotation) == pytest.approx(1)
    for shape in scene.shapes:
        plane, depth = project(shape.pos, camera.rotation)
        assert (np.abs(plane - camera.center) <= camera.half + 1e-12).all()
        assert depth.min() >= DISTANCE - 1 - 1e-9


@pytest.mark.parametrize(("up", "axis"), [("x", 0), ("y", 1), ("z", 2)])
def test_up_is_up(up, axis, make_ball):
    camera = make_camera(scene_of({"a": make_ball()}).shapes, up, (30.0, 20.0), "mesh_report")
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
    camera = make_camera(scene_of({"half": data}).shapes, "y", None, "mesh_report")
    assert (camera.rotation @ outward.numpy())[2] > 0.8


def test_shading_is_lambertian():
    """A surface that faces the key light gets all of it, from either side."""
    rotation = np.eye(3)
    normal = np.array([KEY_LIGHT.direction]) / np.linalg.norm(KEY_LIGHT.direction)
    fill = FILL_LIGHT.intensity * (normal[0] @ FILL_LIGHT.direction)
    expected = AMBIENT + KEY_LIGHT.intensity * np.linalg.norm(KEY_LIGHT.direction) + max(fill, 0)
    np.testing.assert_allclose(shade(normal, rotation), expected)
    np.testing.assert_array_equal(shade(-normal, rotation), shade(normal, rotation))
    down = np.array([[0.0, -1.0, 0.0]])
    expected = AMBIENT - FILL_LIGHT.intensity * FILL_LIGHT.direction[1]
    np.testing.assert_allclose(shade(down, rotation), expected)


def test_bad_arguments(make_ball):
    shapes = scene_of({"a": make_ball()}).shapes
    with pytest.raises(ValueError, match="Expected 'up' in x, y, z"):
        make_camera(shapes, "w", None, "mesh_report")
    with pytest.raises(ValueError, match="Expected 'view' as two angles"):
        make_camera(shapes, "y", (float("nan"), 0), "mesh_report")
