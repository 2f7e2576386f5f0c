"""Checks and types of fields."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.data import from_mesh, from_point_cloud, to_point_cloud
from permutogeo.data.fields import (
    attribute_name,
    byte_alpha,
    byte_colors,
    cast_exact,
    from_data,
    native_copy,
    split_alpha,
    string_attributes,
    unique_rows,
    unit_colors,
)


def test_large_coordinates_warn(mesh):
    vertices = mesh.pos.double().numpy() + 4e6
    with pytest.warns(UserWarning, match="float64"):
        from_mesh(vertices, mesh.face)
    data = from_mesh(vertices, mesh.face, dtype=torch.float64)
    assert np.array_equal(data.pos.numpy(), vertices)


def test_damage_is_read_where_it_is_asked_for(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 9\nf -9 0 1\n")
    data = from_mesh(tmp_path / "a.obj", check=False)
    assert data.pos.isnan().sum() == 1
    assert data.face.t().tolist() == [[0, 1, 2], [0, 1, 8], [-6, -1, 0]]
    (tmp_path / "a.xyz").write_text("0 0 inf\n1 2 3\n")
    assert from_point_cloud(tmp_path / "a.xyz", check=False).pos.isinf().sum() == 1
    (tmp_path / "a.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\n"
        "property float y\nproperty float z\nend_header\n"
    )
    with pytest.raises(ValueError, match="at least one point"):
        from_mesh(tmp_path / "a.ply", check=False)


def test_integer_dtype(cloud, check_error):
    with check_error(ValueError, "floating 'dtype'"):
        from_point_cloud(cloud.pos, dtype=torch.int64)


def test_double_precision(tmp_path, cloud):
    cloud.pos = cloud.pos.double() + 1e6
    for suffix in ("ply", "pcd", "npz", "xyz", "npy"):
        back = from_point_cloud(
            to_point_cloud(cloud, tmp_path / f"a.{suffix}"), dtype=torch.float64
        )
        assert torch.equal(back.pos, cloud.pos), suffix


def test_half_precision_is_written(tmp_path, cloud):
    cloud.pos = cloud.pos.bfloat16()
    back = from_point_cloud(to_point_cloud(cloud, tmp_path / "a.ply"))
    assert torch.equal(back.pos, cloud.pos.float())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quality", "quality"),
        ("x", "x"),
        ("y", "y"),
        ("pos", "vertex_pos"),
        ("face_id", "vertex_face_id"),
        ("num_nodes", "vertex_num_nodes"),
        ("class", "vertex_class"),
        ("7th", "vertex_7th"),
        ("a b-c", "a_b_c"),
        ("_hidden", "vertex__hidden"),
    ],
)
def test_attribute_names_shadow_nothing(name, expected):
    assert attribute_name(name) == expected
    assert expected in ("x", "y") or not hasattr(Data, expected)


def test_native_copies():
    array = np.arange(6, dtype=">u2").reshape(2, 3)[:, ::2]
    copy = native_copy(array)
    assert copy.dtype == np.int64 and copy.flags.c_contiguous and copy.tolist() == array.tolist()
    bytes_ = np.zeros(3, np.uint8)
    assert native_copy(bytes_).dtype == np.uint8 and native_copy(bytes_) is not bytes_


def test_colors_and_opacities_in_bytes():
    exact = np.array([[0, 51, 255]], np.uint8)
    assert np.array_equal(byte_colors(unit_colors(exact)), exact)
    for x in (np.ones((2, 4)), np.full((2, 3), 1.5), np.ones((2, 3), np.int64), np.ones((0, 3))):
        assert byte_colors(x) is None
    assert byte_alpha(np.array([0.2, 1.0], np.float32)).tolist() == [51, 255]
    assert byte_alpha(np.array([0.123456])) is None
    assert set(split_alpha(np.full((2, 4), 255, np.uint8))) == {"x"}
    assert split_alpha(np.array([[0, 0, 0, 51]], np.uint8))["alpha"].tolist() == [np.float32(0.2)]


def test_integers_of_text_fit_their_type():
    assert cast_exact(np.array([1.0, -2.0]), np.dtype("i2"), "id").tolist() == [1, -2]
    with pytest.raises(ValueError, match=r"'id' has the value 300.0, no uint8"):
        cast_exact(np.array([1.0, 300.0]), np.dtype("u1"), "id")


def test_strings_stay_on_one_line():
    data = Data(names=["a\nb", "c"], empty=[], number=3)
    strings = string_attributes(data, ("names", "empty", "number", "absent"))
    assert {name: value.tolist() for name, value in strings.items()} == {"names": ["a b", "c"]}


def test_points_of_data_that_fit():
    data = Data(pos=torch.rand(4, 3), y=torch.arange(4), edge_index=torch.zeros(2, 4).long())
    data.scale, data.title, data.short = torch.tensor(1.0), "a", torch.rand(3)
    assert set(from_data(data, "caller")) == {"pos", "y"}
    with pytest.raises(ValueError, match="caller: Expected 'face' in data"):
        from_data(data, "caller", mesh=True)


@pytest.mark.parametrize("name", ["a.obj", "a.xyz", "a.npy", "a.off"])
def test_numbers_beyond_float32_are_refused(tmp_path, name, check_error):
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, np.array([[0, 0, 0], [0, -1e39, 0]]))
    else:
        head = {"a.obj": "v ", "a.xyz": "", "a.off": ""}[name]
        start = "OFF 2 0 0\n" if name == "a.off" else ""
        path.write_text(f"{start}{head}0 0 0\n{head}0 -1e39 0\n")
    with check_error(ValueError, name, "values of 'pos' within float32", "got 1e.39 in row 1"):
        from_point_cloud(path)
    assert from_point_cloud(path, dtype=torch.float64).pos[1, 1] == -1e39
    assert from_point_cloud(path, dtype=None).pos[1, 1] == -1e39


def test_values_beyond_float32_are_refused(check_error):
    pos = np.zeros((2, 3))
    with check_error(ValueError, "values of 'x' within float32"):
        from_point_cloud(pos, x=np.array([[0.0], [1e40]]), dtype=torch.float64)
    with check_error(ValueError, "finite values in 'pos'"):
        from_point_cloud(np.array([[0, 0, np.inf]]))


def test_unique_rows_keep_their_order():
    array = np.array([[3, 1], [0, 2], [3, 1], [0, 1]])
    rows, index = unique_rows(array)
    assert rows.tolist() == [[3, 1], [0, 2], [0, 1]] and index.tolist() == [0, 1, 0, 2]
