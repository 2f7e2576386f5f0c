import numpy as np
import pytest
import torch
import trimesh

from permutogeo.denoising.triangles import TriangleElements


def test_the_width_of_a_triangle_is_its_least_height():
    pos = torch.tensor([[0.0, 0, 0], [4, 0, 0], [0, 3, 0], [2, 0, 0]])
    elements = TriangleElements(pos, torch.tensor([[0, 0], [1, 1], [2, 3]]))
    assert elements.width(pos).tolist() == pytest.approx([2.4, 0.0])


def test_neighbors_are_those_of_trimesh(icosphere):
    pos, face = icosphere(2)
    pairs = TriangleElements(pos, face).neighbors()
    mesh = trimesh.Trimesh(pos.numpy(), face.t().numpy(), process=False)
    found = {tuple(sorted(pair)) for pair in pairs.t().tolist()}
    assert found == {tuple(sorted(pair)) for pair in mesh.face_adjacency.tolist()}


def test_smoothing_is_taubins(icosphere):
    pos, face = icosphere(2, noise=0.02)
    mesh = trimesh.Trimesh(pos.double().numpy(), face.t().numpy(), process=False)
    operator = trimesh.smoothing.laplacian_calculation(mesh, equal_weight=True)
    trimesh.smoothing.filter_taubin(
        mesh, lamb=0.5, nu=0.53, iterations=6, laplacian_operator=operator
    )
    found = TriangleElements(pos, face).smooth(pos, 3)  # trimesh counts half steps
    np.testing.assert_allclose(found.numpy(), mesh.vertices, atol=1e-5)
