"""Vertex normals."""

import math

import pytest
import torch

from permutogeo.transforms import (
    VertexNormals,
)


@pytest.mark.parametrize("weight", ["area", "angle", "uniform"])
def test_vertex_normals(sphere, weight):
    normal = VertexNormals(weight)(sphere).normal
    assert (normal * sphere.pos).sum(1).min() > 0.999


def test_angle_weights_do_not_see_the_triangulation(box):
    normal = VertexNormals("angle")(box).normal
    assert torch.allclose(normal, box.pos.sign() / math.sqrt(3))
    with pytest.raises(ValueError, match=r"'weight' in area, angle, uniform \(got 'mass'\)"):
        VertexNormals("mass")
