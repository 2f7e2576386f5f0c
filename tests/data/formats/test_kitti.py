"""Scans of KITTI, with and without labels."""

import numpy as np
import pytest

from permutogeo.data import from_point_cloud


def scan(folder, count=7):
    rows = np.random.default_rng(0).random((count, 4)).astype("<f4")
    (folder / "velodyne").mkdir()
    rows.tofile(folder / "velodyne" / "000001.bin")
    return folder / "velodyne" / "000001.bin", rows


def test_points_and_intensity(tmp_path):
    path, rows = scan(tmp_path)
    data = from_point_cloud(path)
    assert np.array_equal(data.pos.numpy(), rows[:, :3])
    assert np.array_equal(data.intensity.numpy().reshape(-1), rows[:, 3])
    assert "y" not in data


@pytest.mark.parametrize("place", ["labels", "velodyne"])
def test_labels(tmp_path, place):
    path, _ = scan(tmp_path)
    (tmp_path / place).mkdir(exist_ok=True)
    label = np.arange(7, dtype="<u4") + (np.arange(7, dtype="<u4") % 3 << 16)
    label.tofile(tmp_path / place / "000001.label")
    data = from_point_cloud(path)
    assert data.y.reshape(-1).tolist() == list(range(7))
    assert data.instance.reshape(-1).tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_errors(tmp_path):
    path, _ = scan(tmp_path)
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "000001.label").write_bytes(b"1234")
    with pytest.raises(ValueError, match=r"labels '000001.label' have 4 bytes for 7 points"):
        from_point_cloud(path)
    short = tmp_path / "short.bin"
    short.write_bytes(b"12345")
    with pytest.raises(ValueError, match=r"short.bin.*5 bytes is no multiple of 16"):
        from_point_cloud(short)
