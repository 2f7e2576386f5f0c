"""OBJ files: order, seams, materials, groups."""

import warnings

import pytest
import trimesh

from permutogeo.data import from_mesh, from_point_cloud, to_mesh

pytestmark = pytest.mark.filterwarnings("ignore:.*polygons were split")

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 0 0\n"


OBJ = (
    "mtllib scan.mtl\n" + SQUARE + "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
    "o left one\ns 1\nf 1 2 5\nusemtl skin\ng front\nf 1/1 2/2 3/3 4/4\n"
    "usemtl cloth # a comment\ns off\nf 2/1 5/2 3/4\nusemtl skin\nf 3/1 4/2 1/3\n"
)


def test_obj_keeps_materials_and_groups(tmp_path, assert_same):
    path = tmp_path / "a.obj"
    path.write_text(OBJ)
    data = from_mesh(path)
    assert data.material_library == ["scan.mtl"]
    assert data.material_names == ["skin", "cloth"] and data.object_names == ["left one"]
    # The quadrangle is two triangles; the first face comes before any material.
    assert data.face_material.tolist() == [-1, 0, 0, 1, 0]
    assert data.face_group.tolist() == [-1, 0, 0, 0, 0]
    assert data.face_smoothing.tolist() == [0, 0, 0, 1, 1]
    assert data.smoothing_names == ["1", "off"]
    # A face without texture coordinates takes none from the others.
    assert data.face_uv[:, 0].tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert data.face_uv[1:, 1].tolist() == [[1, 0], [1, 1], [1, 0], [1, 0]]
    assert_same(from_mesh(to_mesh(data, tmp_path / "b.obj")), data)


def test_materials_are_where_other_programs_look(tmp_path):
    """trimesh splits a file by material: each part has the area that it has in the first file."""
    (tmp_path / "scan.mtl").write_text("newmtl skin\nKd 1 0 0\nnewmtl cloth\nKd 0 1 0\n")
    (tmp_path / "a.obj").write_text(OBJ.replace("f 1 2 5\n", "").replace(" # a comment", ""))
    to_mesh(from_mesh(tmp_path / "a.obj"), tmp_path / "b.obj")
    areas = []
    for name in ("a.obj", "b.obj"):
        scene = trimesh.load_scene(tmp_path / name, group_material=True)
        parts = scene.geometry.values()
        areas.append({part.visual.material.name: part.area for part in parts})
    assert areas[1] == pytest.approx(areas[0])
    assert areas[1] == pytest.approx({"skin": 1.5, "cloth": 0.5})


def test_obj_keeps_order_seams_and_unused_vertices(tmp_path, assert_same):
    (tmp_path / "a.obj").write_text(
        "v 5 5 5\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0 # comment\n"
        "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt .5 .5\n"
        "f 2/1 3/2 4/3\nf -4/5 -2/3 \\\n-1/4\n"
    )
    data = from_mesh(tmp_path / "a.obj")
    assert data.pos[0].tolist() == [5, 5, 5] and data.num_nodes == 5
    assert data.face.t().tolist() == [[1, 2, 3], [1, 3, 4]]
    assert data.face_uv.tolist() == [[[0, 0], [1, 0], [1, 1]], [[0.5, 0.5], [1, 1], [0, 1]]]
    for suffix in ("obj", "ply"):
        back = from_mesh(to_mesh(data, tmp_path / f"b.{suffix}"))
        assert_same(back, data, ("pos", "face", "face_uv"))


def test_values_that_are_no_colors_stay_out_of_obj(tmp_path, mesh):
    mesh.x = mesh.x * 300
    assert "x" not in from_mesh(to_mesh(mesh, tmp_path / "a.obj"))


def test_obj_with_faces_of_several_kinds(tmp_path):
    corners = "v\t0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\n"
    lines = ("1 2 3", "1/1 2/1 3/1", "1//1 2//1 3//1", "1/1/1 2/1/1 3/1/1")
    for faces in (*([line] for line in lines), lines, [*lines, "1 2 3 4"]):
        text = corners + "".join(f"f {line}\n" for line in faces)
        (tmp_path / "a.obj").write_text(text)
        data = from_mesh(tmp_path / "a.obj")
        assert data.face[:, 0].tolist() == [0, 1, 2] and data.face.max() <= 3
        assert ("uv" in data) == all("1/1" in line for line in faces)
        assert ("normal" in data) == all("//" in line or line.count("/") == 6 for line in faces)


def grid(size):
    """A grid of quadrangles with a texture, whose seam makes coordinates those of corners."""
    lines = [f"v {i} {j} 0\nvt {i / size} {j / size}" for i in range(size) for j in range(size)]
    for i in range(size - 1):
        for j in range(size - 1):
            corners = (i * size + j, i * size + j + 1, (i + 1) * size + j + 1, (i + 1) * size + j)
            lines.append("f " + " ".join(f"{c + 1}/{c + 1 if i else 1}" for c in corners))
    return "\n".join(lines) + "\n"


def test_shared_texture_coordinates_stay_shared(tmp_path, assert_same):
    (tmp_path / "a.obj").write_text(grid(12))
    data = from_mesh(tmp_path / "a.obj")
    assert data.face_uv.shape == (242, 3, 2)
    path = to_mesh(data, tmp_path / "b.obj")
    assert path.read_text().count("vt ") <= 144
    assert_same(from_mesh(path), data)


@pytest.mark.filterwarnings("default")
def test_triangulation_warns(tmp_path):
    (tmp_path / "a.obj").write_text(grid(12))
    with pytest.warns(
        UserWarning, match=r"a.obj': polygons were .* \(faces: 121 before, 242 after\)"
    ):
        data = from_mesh(tmp_path / "a.obj")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_mesh(to_mesh(data, tmp_path / "b.obj"))
        from_point_cloud(tmp_path / "a.obj")
