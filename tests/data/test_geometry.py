"""Mesh geometry."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data.geometry import corner_matrix, face_adjacency, mean_edge_length, mesh_edges


def test_edges(sphere, box):
    assert mesh_edges(box.face).shape == (2, 18)
    theirs = trimesh.creation.icosphere(subdivisions=3)
    expected = theirs.edges_unique_length.mean()
    assert mean_edge_length(sphere.pos, sphere.face).item() == pytest.approx(expected)


@pytest.mark.parametrize("shared", [1, 2])
def test_face_graph(shared, damaged):
    data = damaged
    faces = [set(t) for t in data.face.t().tolist()]
    expected = [[float(len(s & t) >= shared) for s in faces] for t in faces]
    np.testing.assert_array_equal(
        face_adjacency(data.face, data.num_nodes, shared).toarray(), expected
    )


def test_corner_sums(damaged):
    data = damaged
    value = torch.rand(3, data.face.size(1), dtype=torch.float64)
    expected = torch.zeros(data.num_nodes, dtype=torch.float64)
    for corner in range(3):
        for t in range(data.face.size(1)):
            expected[data.face[corner, t]] += value[corner, t]
    ours = corner_matrix(data.face, data.num_nodes) @ value.reshape(-1).numpy()
    torch.testing.assert_close(torch.from_numpy(ours), expected)
