"""Ray cast triangles and point discs against exhaustive computations, and their shading."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch_geometric.data import Data

from permutogeo.viz.camera import BACK_FACE, DISTANCE, Camera, make_camera
from permutogeo.viz.render import MARGIN, cast_rays, draw_discs, render
from permutogeo.viz.scene import make_scene

WIDTH, HEIGHT = 23, 17


def intersect(corners, origin, direction):
    """Nearest hit of a ray with triangles [F, 3, 3], in double precision: index and weights."""
    best = (-1, np.inf, None)
    for index, (a, b, c) in enumerate(corners):
        matrix = np.stack([b - a, c - a, -direction], axis=1)
        if abs(np.linalg.det(matrix)) < 1e-12:
            continue
        u, v, depth = np.linalg.solve(matrix, origin - a)
        if min(u, v, 1 - u - v) >= 0 and depth < best[1]:
            best = (index, depth, np.array([1 - u - v, u, v]))
    return best[0], best[2]


@pytest.mark.parametrize("rays", [1, 100, 1 << 16])
def test_rays_match_intersections_in_double_precision(rays, monkeypatch):
    """Random triangles within the unit sphere, seen from a random side."""
    monkeypatch.setattr("permutogeo.viz.render.RAYS_AT_ONCE", rays)
    rng = np.random.default_rng(0)
    pos = rng.uniform(-0.55, 0.55, (60, 3))
    face = np.array([rng.permutation(60)[:3] for _ in range(40)])
    rotation = Rotation.random(random_state=0).as_matrix()
    camera = Camera(rotation, np.array([0.02, -0.01]), np.array([0.25, 0.25]))
    scale = 40.0
    pixel, triangle, weight = cast_rays(pos, face, camera, (WIDTH, HEIGHT), scale)
    found = dict(zip(pixel.tolist(), range(len(pixel)), strict=True))
    origin = DISTANCE * rotation[2]
    hits = 0
    for row in range(HEIGHT):
        for column in range(WIDTH):
            x = (column + 0.5 - WIDTH / 2) / scale + camera.center[0]
            y = (HEIGHT / 2 - row - 0.5) / scale + camera.center[1]
            index, expected = intersect(pos[face], origin, np.array([x, y, -1.0]) @ rotation)
            here = found.get(row * WIDTH + column)
            assert (index == -1) == (here is None)
            if here is not None:
                assert triangle[here] == index
                # Single precision, and triangles seen nearly edge-on.
                np.testing.assert_allclose(weight[here], expected, atol=2e-4)
                hits += 1
    assert hits > 100


def test_a_strip_has_no_gaps():
    """Neighbors share an edge that runs through pixel centers: every pixel belongs to one."""
    pos = np.array([[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]])
    camera = Camera(np.eye(3), np.zeros(2), np.full(2, 0.125))
    face = np.array([[0, 1, 2], [0, 2, 3]])
    pixel, triangle, _ = cast_rays(pos, face, camera, (9, 9), 8.5 / 0.25)
    assert len(pixel) == 81
    assert set(triangle) == {0, 1}


def test_discs_match_distances():
    rng = np.random.default_rng(1)
    screen, depth = rng.uniform(-2, 24, (50, 2)), rng.uniform(3, 5, 50)
    radius = rng.uniform(0.3, 3, 50)
    pixel, point = draw_discs(screen, depth, radius, (WIDTH, HEIGHT))
    row, column = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    center = np.stack([column.ravel(), row.ravel()], axis=1)
    covered = np.linalg.norm(center[:, None] - screen, axis=2) <= radius
    expected = np.where(covered, depth, np.inf).argmin(axis=1)
    np.testing.assert_array_equal(pixel, np.flatnonzero(covered.any(axis=1)))
    np.testing.assert_array_equal(point, expected[pixel])


def test_nothing_in_view():
    camera = Camera(np.eye(3), np.zeros(2), np.full(2, 0.125))
    face = np.array([[0, 1, 2]])
    outside = np.array([[-9.0, -9, 0], [-8, -9, 0], [-9, -8, 0]])
    for pos in (outside, np.zeros((3, 3)), -outside):
        pixel, triangle, weight = cast_rays(pos, face, camera, (WIDTH, HEIGHT), 40.0)
        assert len(pixel) == len(triangle) == len(weight) == 0
    assert len(draw_discs(outside[:, :2], np.ones(3), np.ones(3), (WIDTH, HEIGHT))[0]) == 0


def test_a_ball_covers_the_disc_that_perspective_gives(make_ball):
    scene = make_scene({"ball": make_ball(5)}, None, 10**6, "mesh_picture")
    camera = make_camera(scene.shapes, "y", None, "mesh_picture")
    image = render(scene.shapes[0], camera, (200, 200)).paint(np.full((10**5, 3), 255))
    np.testing.assert_allclose(camera.half, 1 / np.sqrt(DISTANCE**2 - 1), rtol=2e-3)
    assert image[..., 3].sum() == pytest.approx(np.pi * (MARGIN * 100) ** 2, rel=5e-3)


def test_facets_are_flat():
    """A cube shows three sides, and each has one color."""
    corner = torch.tensor([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]).float()
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    face = torch.tensor([[q[0], q[i], q[i + 1]] for q in quads for i in (1, 2)]).t()
    scene = make_scene({"cube": Data(pos=corner, face=face)}, None, 100, "mesh_picture")
    camera = make_camera(scene.shapes, "y", (30.0, 20.0), "mesh_picture")
    buffer = render(scene.shapes[0], camera, (80, 80))
    levels, count = np.unique(buffer.light.round(6), return_counts=True)
    assert len(levels) == 3
    assert count.min() > 500
    # The side that looks up and left, to the light, is brighter than the one to the right.
    assert levels.max() > 1.3 * levels.min()


def test_back_faces_are_darker(make_ball):
    data = make_ball()
    inverted = Data(pos=data.pos, face=data.face.flip(0))
    scenes = [make_scene({"a": each}, None, 10**6, "x") for each in (data, inverted)]
    camera = make_camera(scenes[0].shapes, "y", None, "x")
    light, dark = (render(scene.shapes[0], camera, (50, 50)).light for scene in scenes)
    np.testing.assert_allclose(dark, BACK_FACE * light)
    assert BACK_FACE < 0.8


def test_discs_of_a_coarse_cloud_stay_within_the_picture(make_ball):
    scene = make_scene({"cloud": Data(pos=make_ball(1).pos)}, None, 10**6, "x")
    buffer = render(scene.shapes[0], make_camera(scene.shapes, "y", None, "x"), (60, 60))
    row, column = np.divmod(buffer.pixel, buffer.size[0])
    assert len(row) > 0.4 * 120**2
    assert min(row.min(), column.min()) > 0 and max(row.max(), column.max()) < 119
