"""Tangential relaxation."""

import numpy as np

from permutogeo.datasets.synthetic.isotropic_remeshing import jitter
from permutogeo.datasets.synthetic.meshing import mesh_solid
from permutogeo.datasets.synthetic.patch_mesh import CORNER, triangle_quality
from permutogeo.datasets.synthetic.primitives import box
from permutogeo.datasets.synthetic.relaxation import relax, revert_inverted


def test_relaxation_evens_out_and_keeps_features():
    half = np.array([0.7, 0.5, 0.4])
    mesh = mesh_solid(box(half), 800)
    length = float(mesh.edge_length.mean())
    uneven = jitter(mesh, 0.2 * length, np.random.default_rng(0))
    even = uneven
    for _ in range(5):
        even = relax(even, length)
    assert even.edge_length.std() < uneven.edge_length.std()
    np.testing.assert_allclose(np.abs(even.pos / half).max(axis=1), 1, atol=1e-9)
    corner = mesh.vertex_type == CORNER
    np.testing.assert_array_equal(even.pos[corner], uneven.pos[corner])


def test_inverted_triangles_are_reverted():
    mesh = mesh_solid(box((0.7, 0.5, 0.4)), 400)
    pos = mesh.pos.copy()
    pos[:10] = mesh.pos[:10] + 0.5 * np.random.default_rng(0).standard_normal((10, 3))
    kept = revert_inverted(mesh, pos)
    outward = mesh.surface_normals(np.arange(len(mesh.face)))
    assert triangle_quality(kept[mesh.face], outward).min() > 0
