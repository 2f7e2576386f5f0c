"""Smoothing against plain loops."""

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

from permutogeo.data import from_mesh
from permutogeo.transforms import (
    NormalNoise,
    SmoothNormals,
    VertexNormals,
)


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
def test_smoothing_is_that_of_the_paper(neighbors, shared, damaged):
    data = damaged
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
