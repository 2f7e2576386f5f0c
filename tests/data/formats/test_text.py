"""Numbers and colors of the text formats."""

import pytest
import torch

from permutogeo.data import from_mesh, from_point_cloud, to_mesh


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_text_has_just_enough_digits(tmp_path, dtype):
    pos = torch.tensor([[0.1, 1e-30, 3.0], [1 / 3, -2e20, 0.0], [0.0, 1.0, 7e-7]], dtype=dtype)
    data = from_mesh(pos, torch.tensor([[0], [1], [2]]), dtype=dtype)
    for suffix in ("obj", "off"):
        path = to_mesh(data, tmp_path / f"a.{suffix}")
        assert "0.1 1e-30 3.0\n" in path.read_text()
        assert torch.equal(from_mesh(path, dtype=dtype).pos, pos)


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        ("obj", ("pos", "face", "x", "normal", "uv")),
        ("off", ("pos", "face", "x", "face_color")),
    ],
)
def test_text_formats(tmp_path, mesh, suffix, names, assert_same):
    assert_same(from_mesh(to_mesh(mesh, tmp_path / f"a.{suffix}")), mesh, names)


@pytest.mark.parametrize("scale", [1, 255])
def test_colors_of_text_formats(tmp_path, scale):
    rows = [f"0 {i} {i * i} {scale} 0 {scale * 0.2}" for i in range(3)]
    (tmp_path / "a.obj").write_text("".join(f"v {row}\n" for row in rows) + "f 1 2 3\n")
    (tmp_path / "a.off").write_text("COFF\n3 1 0\n" + "\n".join(rows) + "\n3 0 1 2\n")
    for name in ("a.obj", "a.off"):
        torch.testing.assert_close(
            from_mesh(tmp_path / name).x, torch.tensor([[1.0, 0.0, 0.2]]).expand(3, 3)
        )


TEXTS = {
    "a.obj": "v 1 2 3\nv 4 5 6\nv 7 8 10\nf 1 2 3\n",
    "a.off": "OFF\n3 1 0\n1 2 3\n4 5 6\n7 8 10\n3 0 1 2\n",
    "a.xyz": "1 2 3\n4 5 6\n7 8 10\n",
    "a.ply": "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
    "property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
    "1 2 3\n4 5 6\n7 8 10\n3 0 1 2\n",
    "a.stl": "solid a\nfacet normal 0 0 1\nouter loop\nvertex 1 2 3\nvertex 4 5 6\nvertex 7 8 10\n"
    "endloop\nendfacet\nendsolid a\n",
    "a.pcd": "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 3\nHEIGHT 1\nDATA ascii\n"
    "1 2 3\n4 5 6\n7 8 10\n",
}
each_text = pytest.mark.parametrize("name", TEXTS)


def read_any(path):
    return (from_mesh if path.suffix in (".obj", ".off", ".ply", ".stl") else from_point_cloud)(
        path
    )


@each_text
def test_byte_order_marks_are_skipped(tmp_path, name):
    for encoding in ("ascii", "utf-8-sig"):
        (tmp_path / name).write_text(TEXTS[name], encoding=encoding)
        assert read_any(tmp_path / name).pos.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 10]]


@pytest.mark.parametrize("name", ["a.obj", "a.off", "a.xyz", "a.ply", "a.pcd"])
def test_wide_characters_are_refused(tmp_path, name, check_error):
    (tmp_path / name).write_text(TEXTS[name], encoding="utf-16")
    with check_error(ValueError, name, "UTF-16; save it as UTF-8"):
        read_any(tmp_path / name)


@pytest.mark.parametrize("name", ["a.obj", "a.off", "a.xyz", "a.ply", "a.pcd"])
def test_underscores_are_no_digits(tmp_path, name, check_error):
    (tmp_path / name).write_text(TEXTS[name].replace("10", "1_0"))
    with check_error(ValueError, name, "could not convert '1_0'"):
        read_any(tmp_path / name)


def test_underscores_in_indices(tmp_path, check_error):
    (tmp_path / "a.obj").write_text(TEXTS["a.obj"].replace("f 1 2 3", "f 1 2 0_3"))
    (tmp_path / "a.off").write_text(TEXTS["a.off"].replace("3 0 1 2", "3 0 1 0_2"))
    for name in ("a.obj", "a.off"):
        with check_error(ValueError, name, "could not convert '0_"):
            read_any(tmp_path / name)


@each_text
def test_windows_line_ends(tmp_path, name):
    (tmp_path / name).write_bytes(TEXTS[name].replace("\n", "\r\n").encode())
    assert read_any(tmp_path / name).pos.shape == (3, 3)
