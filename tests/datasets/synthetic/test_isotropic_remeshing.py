"""Edge lengths, valences and features after remeshing."""

import numpy as np
import pytest

from permutogeo.datasets.synthetic.isotropic_remeshing import collapse, flip, jitter, remesh, split
from permutogeo.datasets.synthetic.meshing import extract_mesh, mesh_solid
from permutogeo.datasets.synthetic.primitives import box, ellipsoid


@pytest.fixture(scope="module")
def mesh():
    return mesh_solid(box((0.7, 0.5, 0.4)), 800)


def test_edges_have_the_target_length():
    coarse = extract_mesh(ellipsoid(0.8), np.full(3, -1.0), 0.1, (21, 21, 21))
    fine = remesh(coarse, 0.08)
    assert fine.edge_length.mean() == pytest.approx(0.08, rel=0.15)
    assert fine.edge_length.std() < 0.2 * fine.edge_length.mean()
    np.testing.assert_allclose(np.linalg.norm(fine.pos, axis=1), 0.8, atol=1e-9)
    valence = np.bincount(fine.edges.ends.reshape(-1))
    assert (np.abs(valence - 6) <= 1).mean() > 0.9


def test_split_and_collapse_keep_a_closed_surface(mesh):
    longest = float(np.quantile(mesh.edge_length, 0.7))
    finer = split(mesh, longest)
    assert len(finer.pos) > len(mesh.pos)
    coarser = collapse(mesh, longest, 4 * longest, np.random.default_rng(0))
    assert len(coarser.pos) < len(mesh.pos)
    for other in (finer, coarser):  # building the edges raises unless the mesh is closed
        assert len(other.pos) - len(other.edges.ends) + len(other.face) == 2
        crease = other.edge_length[other.is_crease].sum()
        assert crease == pytest.approx(mesh.edge_length[mesh.is_crease].sum(), rel=1e-6)


def test_jitter_moves_along_the_surface_and_flip_restores_delaunay(mesh):
    moved = jitter(mesh, 0.2 * float(mesh.edge_length.mean()), np.random.default_rng(0))
    assert np.abs(moved.pos - mesh.pos).max() > 0.01
    half = np.array([0.7, 0.5, 0.4])
    np.testing.assert_allclose(np.abs(moved.pos / half).max(axis=1), 1, atol=1e-9)
    for _ in range(20):
        moved, count = flip(moved)
        if count == 0:
            break
    assert count == 0
