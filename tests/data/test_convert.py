"""Objects of Open3D and trimesh."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.data.open3d_loader import load_open3d


@pytest.mark.parametrize("kind", ["trimesh", "open3d_tensor"])
def test_objects_keep_everything(mesh, kind, assert_same):
    back = from_mesh(to_mesh(mesh, kind=kind))
    assert_same(back, mesh, mesh.to_dict())
    mesh.x = torch.randn(mesh.num_nodes, 2)
    assert_same(from_mesh(to_mesh(mesh, kind=kind)), mesh, mesh.to_dict())


def test_textured_trimesh(mesh, assert_same):
    del mesh.x
    theirs = to_mesh(mesh)
    assert theirs.visual.kind == "texture"
    assert_same(from_mesh(theirs), mesh, mesh.to_dict())


def test_legacy_open3d(mesh, assert_same):
    theirs = to_mesh(mesh, kind="open3d")
    assert (theirs.has_vertex_colors(), theirs.has_triangle_uvs()) == (True, True)
    back = from_mesh(theirs)
    mesh.face_uv = mesh.uv[mesh.face.t()]
    assert_same(back, mesh, ("pos", "face", "x", "normal", "face_uv"))
    back.pos.zero_()
    assert np.asarray(theirs.vertices).any()  # the memory is not shared


def test_plain_objects_have_no_invented_attributes():
    o3d = load_open3d()
    sphere = trimesh.creation.icosphere(subdivisions=1)
    legacy = o3d.geometry.TriangleMesh.create_sphere()
    for theirs in (sphere, legacy, o3d.t.geometry.TriangleMesh.from_legacy(legacy)):
        assert set(from_mesh(theirs).to_dict()) == {"pos", "face"}


def test_open3d_objects(cloud, assert_same):
    assert_same(from_point_cloud(to_point_cloud(cloud)), cloud, ("pos", "x", "normal"))
    tensor = to_point_cloud(cloud, kind="open3d_tensor")
    assert_same(from_point_cloud(tensor), cloud, cloud.to_dict())


def test_trimesh_objects(cloud, assert_same):
    pytest.importorskip("trimesh")
    assert_same(from_point_cloud(to_point_cloud(cloud, kind="trimesh")), cloud, ("pos", "x"))
    del cloud.x
    assert_same(from_point_cloud(to_point_cloud(cloud, kind="trimesh")), cloud, ("pos",))
