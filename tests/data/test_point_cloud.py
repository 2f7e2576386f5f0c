"""Point clouds between files, objects and ``Data``."""

import numpy as np
import pytest
import torch

from permutogeo.data import from_point_cloud, to_point_cloud
from permutogeo.data._open3d import load_open3d
from permutogeo.data._pcd import lzf_decompress


@pytest.fixture
def cloud():
    generator = torch.Generator().manual_seed(0)
    data = from_point_cloud(torch.randn(50, 3, generator=generator))
    data.x = torch.randint(256, (50, 3), generator=generator) / torch.tensor(255.0)
    data.normal = torch.nn.functional.normalize(torch.randn(50, 3, generator=generator))
    data.y = torch.arange(50)
    data.intensity = torch.rand(50, generator=generator)
    return data


def assert_same(back, data, names):
    assert set(back.to_dict()) == set(names)
    for name in names:
        assert back[name].dtype == data[name].dtype, name
        assert torch.equal(back[name], data[name]), name


def check_error(kind, *parts):
    return pytest.raises(kind, match="(?s)" + ".*".join(map(str, parts)))


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        ("ply", ("pos", "x", "normal", "y", "intensity")),
        ("pcd", ("pos", "x", "normal", "y", "intensity")),
        ("npz", ("pos", "x", "normal", "y", "intensity")),
        ("xyz", ("pos", "x")),
        ("txt", ("pos", "x")),
        ("npy", ("pos", "x")),
        ("xyzn", ("pos", "normal")),
        ("xyzrgb", ("pos", "x")),
    ],
)
def test_round_trip_of_files(tmp_path, cloud, suffix, names):
    path = to_point_cloud(cloud, tmp_path / f"a.{suffix}")
    assert_same(from_point_cloud(path), cloud, names)
    assert len(list(tmp_path.iterdir())) == 1


def test_double_precision(tmp_path, cloud):
    cloud.pos = cloud.pos.double() + 1e6
    for suffix in ("ply", "pcd", "npz", "xyz", "npy"):
        back = from_point_cloud(
            to_point_cloud(cloud, tmp_path / f"a.{suffix}"), dtype=torch.float64
        )
        assert torch.equal(back.pos, cloud.pos), suffix


@pytest.mark.parametrize("suffix", ["ply", "pcd"])
def test_open3d_reads_what_we_write(tmp_path, cloud, suffix):
    theirs = load_open3d().io.read_point_cloud(str(to_point_cloud(cloud, tmp_path / f"a.{suffix}")))
    assert np.allclose(np.asarray(theirs.points), cloud.pos.numpy())
    assert np.allclose(np.asarray(theirs.normals), cloud.normal.numpy())
    assert np.allclose(np.asarray(theirs.colors), cloud.x.numpy())


@pytest.mark.parametrize("options", [{"write_ascii": True}, {"compressed": True}, {}])
@pytest.mark.parametrize("suffix", ["ply", "pcd"])
def test_we_read_what_open3d_writes(tmp_path, cloud, suffix, options):
    path = tmp_path / f"a.{suffix}"
    load_open3d().io.write_point_cloud(str(path), to_point_cloud(cloud), **options)
    back = from_point_cloud(path)
    for name in ("pos", "normal", "x"):
        torch.testing.assert_close(back[name], cloud[name], rtol=0, atol=1e-5)


def test_open3d_objects(cloud):
    assert_same(from_point_cloud(to_point_cloud(cloud)), cloud, ("pos", "x", "normal"))
    tensor = to_point_cloud(cloud, kind="open3d_tensor")
    assert_same(from_point_cloud(tensor), cloud, cloud.to_dict())


def test_trimesh_objects(cloud):
    pytest.importorskip("trimesh")
    assert_same(from_point_cloud(to_point_cloud(cloud, kind="trimesh")), cloud, ("pos", "x"))
    del cloud.x
    assert_same(from_point_cloud(to_point_cloud(cloud, kind="trimesh")), cloud, ("pos",))


def test_arrays():
    points = np.random.default_rng(0).random((8, 7))
    data = from_point_cloud(points)
    assert (data.pos.shape, data.x.shape) == ((8, 3), (8, 4))
    assert from_point_cloud(points[:, :2]).pos.shape == (8, 2)
    data.x.zero_()
    assert points.all()
    assert from_point_cloud(points[:, :3], x=points[:, 3]).x.shape == (8, 1)
    flat = from_point_cloud(points[:, :2])
    assert to_point_cloud(flat, kind="numpy").shape == (8, 2)
    assert np.asarray(to_point_cloud(flat).points).shape == (8, 3)


def test_half_precision_is_written(tmp_path, cloud):
    cloud.pos = cloud.pos.bfloat16()
    back = from_point_cloud(to_point_cloud(cloud, tmp_path / "a.ply"))
    assert torch.equal(back.pos, cloud.pos.float())


def test_invalid_points(tmp_path, cloud):
    cloud.pos[3, 1] = float("nan")
    with check_error(ValueError, "finite values in 'pos'", "row 3"):
        from_point_cloud(cloud.pos)
    data = from_point_cloud(cloud.pos, x=cloud.x, drop_invalid=True)
    assert torch.equal(data.x, cloud.x[torch.arange(50) != 3])
    with check_error(ValueError, "at least one point"):
        from_point_cloud(cloud.pos[3:4], drop_invalid=True)


PCD = """# .PCD v.7
VERSION .7
FIELDS x y z _ rgb
SIZE 4 4 4 1 4
TYPE F F F U U
COUNT 1 1 1 1 1
WIDTH {width}
HEIGHT 1
POINTS {points}
DATA {kind}
0 0 0 0 16711935
1 0 {z} 0 255
"""


def test_pcd_colors_and_padding(tmp_path):
    (tmp_path / "a.pcd").write_text(PCD.format(width=2, points=2, kind="ascii", z=0))
    data = from_point_cloud(tmp_path / "a.pcd")
    assert data.x.tolist() == [[1, 0, 1], [0, 0, 1]] and data.num_nodes == 2


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"points": 1000000, "width": 1000000}, "claims 1000000"),
        ({"points": 1, "width": 1}, "claims 1 rows"),
        ({"points": 3}, "width times height is 2"),
        ({"kind": "binary"}, "claims 2 points"),
        ({"kind": "binary_compressed"}, "packed bytes"),
        ({"kind": "zip"}, "DATA is 'zip'"),
        ({"z": "nan"}, "finite"),
    ],
)
def test_lying_pcd(tmp_path, change, part):
    values = {"width": 2, "points": 2, "kind": "ascii", "z": 0, **change}
    (tmp_path / "a.pcd").write_text(PCD.format(**values))
    with check_error(ValueError, "a.pcd", "Expected", part):
        from_point_cloud(tmp_path / "a.pcd")


def test_lzf():
    assert lzf_decompress(b"\x02abc\x40\x02", 7) == b"abcabca"
    assert lzf_decompress(b"\x00a\xe0\x03\x00", 13) == b"a" * 13  # a copy of what it writes
    for packed, size in ((b"\x40\x02", 4), (b"\x02abc", 7)):
        with pytest.raises(ValueError, match=r"damaged|claimed"):
            lzf_decompress(packed, size)


def test_truncated_binary(tmp_path, cloud):
    for suffix in ("pcd", "ply", "npy", "npz"):
        content = to_point_cloud(cloud, tmp_path / f"a.{suffix}").read_bytes()
        for length in (0, 3, 50, len(content) // 2, len(content) - 2):
            (tmp_path / f"cut.{suffix}").write_bytes(content[:length])
            with check_error(ValueError, f"cut.{suffix}"):
                from_point_cloud(tmp_path / f"cut.{suffix}")


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.xyz", "1 2 3\n1 2\n", "row 1 has 2"),
        ("a.xyz", "1 2\n", "2 numbers"),
        ("a.xyz", "1 2 nan\n", "finite"),
        ("a.xyz", "# nothing\n", "0 numbers"),
        ("a.xyz", "a b c\n", "damaged"),
        ("a.xyzn", "1 2 3\n", "3 numbers"),
        ("a.pcd", "hello", "no 'DATA'"),
        ("a.npy", "hello", "damaged"),
        ("a.npz", "hello", "damaged"),
        ("a.las", "hello", "got '.las'"),
    ],
)
def test_damaged_text(tmp_path, name, text, part):
    (tmp_path / name).write_text(text)
    with check_error(ValueError, name, ".*" + part):
        from_point_cloud(tmp_path / name)


def test_no_pickle(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", pos=np.array([{}], object))
    for name in ("a.npy", "a.npz"):
        with check_error(ValueError, name, "damaged"):
            from_point_cloud(tmp_path / name)


def test_wrong_arguments(tmp_path, cloud):
    with check_error(TypeError, "got builtins.list"):
        from_point_cloud([[0, 0, 0]])
    with check_error(ValueError, r"from_point_cloud: Expected points", r"\[5\]"):
        from_point_cloud(np.zeros(5))
    with check_error(ValueError, r"\[N, 2\] or \[N, 3\]", r"\[50, 4\]"):
        from_point_cloud(np.zeros((50, 4)), x=cloud.x)
    with check_error(ValueError, "at least one point"):
        from_point_cloud(np.zeros((0, 3)))
    with check_error(ValueError, "'normal' of shape"):
        from_point_cloud(cloud.pos, normal=cloud.pos[:, :2])
    with check_error(ValueError, "'kind'"):
        to_point_cloud(cloud, kind="pcl")
    del cloud.normal
    with check_error(ValueError, "'normal' in data"):
        to_point_cloud(cloud, tmp_path / "a.xyzn")
    del cloud.pos
    with check_error(
        ValueError, "to_point_cloud: Expected 'pos' in data", "it has x, y, intensity"
    ):
        to_point_cloud(cloud, tmp_path / "a.ply")
    assert not list(tmp_path.iterdir())


def test_npy_that_claims_more_than_memory(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    content = (tmp_path / "a.npy").read_bytes()
    padded = content.replace(b"(4, 3), }             ", b"(40000000000000, 3), }")
    assert len(padded) == len(content) and padded != content
    (tmp_path / "a.npy").write_bytes(padded)
    with check_error(ValueError, "a.npy"):
        from_point_cloud(tmp_path / "a.npy")


def test_integer_dtype(cloud):
    with check_error(ValueError, "floating 'dtype'"):
        from_point_cloud(cloud.pos, dtype=torch.int64)
