import pytest
import torch
from torch_geometric.data import Data

from permutogeo.cli.mesh_files import (
    count_noun,
    describe_size,
    lost_attributes,
    read_geometry,
    write_geometry,
)
from permutogeo.data import from_mesh, to_mesh


def test_sizes_in_words():
    assert count_noun(1, "mesh", "meshes") == "1 mesh"
    assert count_noun(1200, "mesh", "meshes") == "1,200 meshes"
    assert describe_size(Data(pos=torch.zeros(1, 3))) == "1 point"
    face = torch.zeros(3, 1, dtype=torch.int64)
    assert describe_size(Data(pos=torch.zeros(3, 3), face=face)) == "3 vertices, 1 face"


def test_repairs_are_described(tmp_path, capsys, cube):
    assert read_geometry(to_mesh(cube(1), tmp_path / "a.ply"))[1] == ""
    path = tmp_path / "b.off"
    path.write_text("OFF\n4 1 0\n0 0 nan\n0 0 0\n1 0 0\n0 1 0\n3 1 2 3\n")
    data, repairs = read_geometry(path)
    assert data.pos.isfinite().all() and "1 non-finite vertex" in repairs
    assert capsys.readouterr().err == f"Warning: '{path}': {repairs}\n"


def test_triangulation_is_said(tmp_path, capsys):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n")
    data, repairs = read_geometry(path)
    assert data.face.size(1) == 2 and repairs == ""
    text = "polygons were split into triangles (faces: 1 before, 2 after)"
    assert capsys.readouterr().err == f"Warning: '{path}': {text}\n"


def test_attributes_that_a_format_loses(noisy, tmp_path):
    data = noisy(1)
    data.quality = torch.rand(data.num_nodes)
    assert lost_attributes(data, tmp_path / "a.ply") == []
    assert lost_attributes(data, tmp_path / "a.off") == ["quality"]
    assert lost_attributes(data, tmp_path / "a.stl") == ["quality", "x"]
    with pytest.raises(ValueError, match=r"got '\.xyz'"):
        lost_attributes(data, tmp_path / "a.xyz")


def test_references_stay_valid(tmp_path, cube):
    (tmp_path / "in").mkdir(), (tmp_path / "out").mkdir()
    (tmp_path / "in" / "a.mtl").write_text("newmtl a\n")
    data = cube(1)
    data.material_library = ["a.mtl", "missing.mtl"]
    write_geometry(data, tmp_path / "out" / "b.obj", tmp_path / "in" / "a.obj")
    read = from_mesh(tmp_path / "out" / "b.obj")
    assert read.material_library == ["../in/a.mtl", "missing.mtl"]
