"""Point clouds between files, objects and ``Data``."""

import numpy as np
import pytest
import torch

from permutogeo.data import from_mesh, from_point_cloud, to_point_cloud
from permutogeo.data.open3d_loader import load_open3d


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
def test_round_trip_of_files(tmp_path, cloud, suffix, names, assert_same):
    path = to_point_cloud(cloud, tmp_path / f"a.{suffix}")
    assert_same(from_point_cloud(path), cloud, names)
    assert len(list(tmp_path.iterdir())) == 1


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


@pytest.mark.parametrize("suffix", ["obj", "off"])
def test_clouds_in_mesh_formats(tmp_path, suffix, assert_same):
    data = from_point_cloud(torch.rand(20, 3), x=torch.randint(256, (20, 3)) / torch.tensor(255.0))
    path = to_point_cloud(data, tmp_path / f"a.{suffix}")
    assert_same(from_point_cloud(path), data)
    assert_same(from_mesh(path, check=False), data)
    flat = to_point_cloud(from_point_cloud(torch.rand(5, 2)), path)
    assert from_point_cloud(flat).pos[:, 2].tolist() == [0] * 5
    with pytest.raises(ValueError, match="at least one face"):
        from_mesh(path)


def test_invalid_points(tmp_path, cloud, check_error):
    cloud.pos[3, 1] = float("nan")
    with check_error(ValueError, "finite values in 'pos'", "row 3"):
        from_point_cloud(cloud.pos)
    data = from_point_cloud(cloud.pos, x=cloud.x, drop_invalid=True)
    assert torch.equal(data.x, cloud.x[torch.arange(50) != 3])
    with check_error(ValueError, "at least one point"):
        from_point_cloud(cloud.pos[3:4], drop_invalid=True)


def test_wrong_arguments(tmp_path, cloud, check_error):
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
