"""Meshes of solids whose creases are known."""

import numpy as np
import pytest
import trimesh

from permutogeo.datasets.synthetic.meshing import check_mesh, count_vertex_fans, mesh_solid
from permutogeo.datasets.synthetic.patch_mesh import CORNER, CREASE, MeshingError
from permutogeo.datasets.synthetic.primitives import (
    box,
    cone,
    ellipsoid,
    half_space,
    infinite_cylinder,
)

TURN = trimesh.transformations.rotation_matrix(1.0, [1, 2, 3])[:3, :3]


def as_trimesh(pos, face):
    return trimesh.Trimesh(np.asarray(pos, float), np.asarray(face), process=False)


def test_box():
    """Volume and area are exact, and creases are the twelve edges: no corner is lost."""
    half = np.array([0.7, 0.5, 0.4])
    mesh = mesh_solid(box(half).moved(TURN), 1500)
    check_mesh(mesh, box(half).moved(TURN))
    solid = as_trimesh(mesh.pos @ TURN, mesh.face)
    assert solid.is_watertight and solid.is_winding_consistent and solid.euler_number == 2
    assert solid.volume == pytest.approx(8 * half.prod(), rel=1e-9)
    assert solid.area == pytest.approx(8 * (half[0] * half[1:].sum() + half[1] * half[2]), rel=1e-9)
    assert mesh.edge_length[mesh.is_crease].sum() == pytest.approx(8 * half.sum(), rel=1e-9)
    assert (mesh.vertex_type == CORNER).sum() == 8
    np.testing.assert_allclose(
        np.abs(solid.vertices[mesh.vertex_type == CORNER]), np.tile(half, (8, 1))
    )
    angle = solid.face_adjacency_angles
    assert (np.minimum(angle, np.abs(angle - np.pi / 2)) < 1e-6).all()
    assert 1300 < len(mesh.face) < 1700


def test_creases_of_curved_sides():
    """The rims of a hole through a box are circles, and its wall lies on the cylinder."""
    solid = box((0.8, 0.7, 0.5)) - infinite_cylinder(0.3)
    mesh = mesh_solid(solid, 2500)
    check_mesh(mesh, solid)
    radius = np.hypot(mesh.pos[:, 0], mesh.pos[:, 1])
    rim = (mesh.vertex_type == CREASE) & (radius < 0.4)
    assert rim.sum() > 30
    np.testing.assert_allclose(radius[rim], 0.3, atol=1e-9)
    np.testing.assert_allclose(np.abs(mesh.pos[rim, 2]), 0.5, atol=1e-9)
    found = as_trimesh(mesh.pos, mesh.face)
    assert found.euler_number == 0
    assert found.volume == pytest.approx(8 * 0.8 * 0.7 * 0.5 - np.pi * 0.09, rel=4e-3)
    # Edges inside a side are as flat as a chord of this length on the cylinder.
    smooth = as_trimesh(mesh.pos, mesh.face).face_normals[mesh.edges.faces[~mesh.is_crease]]
    assert np.arccos(np.clip((smooth[:, 0] * smooth[:, 1]).sum(1), -1, 1)).max() < 0.4


def test_apex_of_a_cone():
    solid = cone(0.6, 1.0).moved(TURN)
    mesh = mesh_solid(solid, 1200)
    check_mesh(mesh, solid)
    assert np.linalg.norm(mesh.pos - TURN[:, 2], axis=1).min() < 1e-12
    volume = as_trimesh(mesh.pos, mesh.face).volume
    assert volume == pytest.approx(np.pi * 0.36 / 3, rel=0.02)


def test_empty_solids_are_refused():
    with pytest.raises(MeshingError, match="empty"):
        mesh_solid(ellipsoid(0.5) & half_space((1, 0, 0), -1), 500)


def test_every_vertex_of_a_manifold_has_one_fan():
    mesh = mesh_solid(ellipsoid(0.5), 300)
    assert count_vertex_fans(mesh) == len(mesh.pos)
    # Two vertices merged into one: two fans meet there.
    far = int(mesh.pos[:, 2].argmax())
    joined = mesh.face.copy()
    joined[joined == far] = int(mesh.pos[:, 2].argmin())
    pinched = mesh.rebuilt(mesh.pos, joined, mesh.patch, mesh.fixed)
    assert count_vertex_fans(pinched) == len(mesh.pos) > len(np.unique(joined))
