"""Boolean operations, and the surface that each value comes from."""

import numpy as np
import pytest
import trimesh

from permutogeo.datasets.synthetic.primitives import (
    box,
    cylinder,
    ellipsoid,
    infinite_prism,
    revolved,
    rounded_box,
    slab,
    smooth_union,
    torus,
    twisted,
)

TURN = trimesh.transformations.rotation_matrix(1.0, [1, 2, 3])[:3, :3]
STAR = np.array([[1, 0], [0.3, 0.2], [0.1, 1], [-0.2, 0.3], [-1, -0.1], [-0.1, -0.2], [0.1, -0.9]])
SOLIDS = {
    "difference": (box((0.5, 0.6, 0.7)) - ellipsoid(0.6).moved(shift=(0.5, 0, 0))).moved(TURN),
    "twisted": twisted(infinite_prism(STAR) & slab(0.5), 1.0, 0.3),
    "turned": revolved(np.array([[-1, -0.5], [0.8, -0.5], [0.4, 0.1], [0.6, 0.5], [-1, 0.5]])),
    "torus": torus(0.7, 0.2) | cylinder(0.2, 0.5),
    "blended": smooth_union(
        [ellipsoid(0.5).surfaces[0], rounded_box((0.8, 0.3, 0.2), 0.1).surfaces[0]], 0.2
    ),
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


def test_booleans_are_those_of_sets():
    points = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
    a, b = box((0.5, 0.6, 0.7)), ellipsoid(0.6).moved(shift=(0.5, 0, 0))
    in_a, in_b = a(points)[0] < 0, b(points)[0] < 0
    for solid, expected in ((a | b, in_a | in_b), (a & b, in_a & in_b), (a - b, in_a & ~in_b)):
        np.testing.assert_array_equal(solid(points)[0] < 0, expected)
        assert 0 < expected.mean() < 1


def test_moved_solids():
    points = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    solid, shift = box((0.5, 0.6, 0.7)), np.array([0.1, 0.2, 0.3])
    moved = solid.moved(TURN, shift)
    np.testing.assert_allclose(moved(points @ TURN.T + shift)[0], solid(points)[0], atol=1e-12)
