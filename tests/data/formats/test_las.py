"""LAS and LAZ: nothing is lost, and damage is an error."""

import random
import struct

import numpy as np
import pytest
import torch

from permutogeo.data import from_point_cloud, to_point_cloud
from permutogeo.data.formats.las import LasStream, read_las

laspy = pytest.importorskip("laspy")


def records(vlrs):
    skipped = ("laszip encoded",)
    return [
        (v.user_id, v.record_id, v.description, v.record_data_bytes())
        for v in vlrs
        if v.user_id not in skipped
    ]


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize(
    "layout",
    [{}, {"point_format": 6}, {"version": "1.2", "point_format": 3}, {"point_format": 0}],
    ids=str,
)
def test_nothing_is_lost(tmp_path, las_file, suffix, layout):
    """Every bit of every record, by laspy's own account."""
    source = las_file(**layout)
    path = to_point_cloud(from_point_cloud(source), tmp_path / f"b.{suffix}")
    before, after = laspy.read(source), laspy.read(path)
    assert np.array_equal(before.points.array, after.points.array)
    assert before.header.version == after.header.version
    assert before.point_format == after.point_format
    assert np.array_equal(before.header.scales, after.header.scales)
    assert np.array_equal(before.header.offsets, after.header.offsets)
    assert before.header.system_identifier == after.header.system_identifier
    assert before.header.global_encoding.value == after.header.global_encoding.value
    assert records(before.vlrs) == records(after.vlrs)
    assert records(before.evlrs or []) == records(after.evlrs or [])


def test_coordinates_keep_their_precision(las_file):
    source = las_file()
    data = from_point_cloud(source)
    assert data.pos.dtype == data.gps_time.dtype == torch.float64
    assert np.array_equal(data.pos.numpy(), np.asarray(laspy.read(source).xyz))
    assert data.crs[0].startswith("PROJCS")
    assert data.x.max() <= 1 and data.x.dtype == torch.float32
    assert from_point_cloud(source, dtype=torch.float32).pos.dtype == torch.float32
    with pytest.raises(ValueError, match=r"Expected a torch.dtype or 'auto' \(got 'half'\)"):
        from_point_cloud(source, dtype="half")


def test_points_without_a_header(tmp_path, cloud):
    """New files hold all attributes; steps are a billionth of the extent."""
    cloud.descriptor = torch.rand(50, 5)
    cloud.pos = cloud.pos.double() + torch.tensor([5e5, 5.4e6, 0.0], dtype=torch.float64)
    back = from_point_cloud(to_point_cloud(cloud, tmp_path / "a.laz"))
    torch.testing.assert_close(back.pos, cloud.pos, rtol=0, atol=1e-8)
    for name in ("x", "normal", "y", "intensity", "descriptor"):
        torch.testing.assert_close(back[name], cloud[name], rtol=0, atol=0, check_dtype=False)


def test_new_and_dropped_attributes(tmp_path, las_file):
    data = from_point_cloud(las_file())
    data.label = torch.arange(data.num_nodes)
    del data["vec"]
    back = from_point_cloud(to_point_cloud(data, tmp_path / "b.laz"))
    assert torch.equal(back.label, data.label) and "vec" not in back
    assert torch.equal(back.big, data.big)


def test_values_that_do_not_fit(tmp_path, las_file):
    data = from_point_cloud(las_file())
    data.pos[7, 0] = 1e12
    with pytest.raises(ValueError, match=r"Expected coordinates within 32 bits .* in row 7"):
        to_point_cloud(data, tmp_path / "b.laz")
    assert not (tmp_path / "b.laz").exists()


def test_parts_of_a_file_have_the_same_attributes(tmp_path, las_file):
    fields = read_las(las_file())
    with LasStream(tmp_path / "b.laz") as stream:
        stream.write(fields)
        stream.write(fields)
        with pytest.raises(ValueError, match="Expected the same attributes in all parts"):
            stream.write({k: v for k, v in fields.items() if k != "vec"})
    assert len(laspy.read(tmp_path / "b.laz")) == 2 * len(fields["pos"])


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_truncated(tmp_path, las_file, suffix):
    content = las_file(f"a.{suffix}").read_bytes()
    path = tmp_path / f"cut.{suffix}"
    for length in [1, 100, 226, 300, 380, *range(400, len(content), len(content) // 20)]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"cut.{suffix}': Expected"):
            from_point_cloud(path)


def test_claims_of_the_header(tmp_path, las_file):
    """Counts far beyond the file are refused at once."""
    content, path = las_file("a.las").read_bytes(), tmp_path / "b.las"
    for at, kind, value in (
        (100, "<I", 2**32 - 1),  # records before the points
        (96, "<I", 2**31),  # offset to the points
        (243, "<I", 2**32 - 1),  # records after the points
        (247, "<Q", 2**60),  # points
        (131, "<d", float("nan")),  # scale
        (131, "<d", 0.0),
    ):
        damaged = bytearray(content)
        struct.pack_into(kind, damaged, at, value)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"b.las': Expected"):
            from_point_cloud(path)


def test_mutations_are_valid_or_refused(tmp_path, las_file):
    content, random_ = las_file().read_bytes(), random.Random(0)
    path = tmp_path / "b.laz"
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        path.write_bytes(damaged)
        try:
            data = from_point_cloud(path)
        except ValueError as error:
            assert "b.laz" in str(error)
        else:
            assert torch.isfinite(data.pos).all()


def test_the_extra_is_named(tmp_path, las_file, monkeypatch):
    path = las_file()
    monkeypatch.setitem(__import__("sys").modules, "lazrs", None)
    with pytest.raises(ImportError, match=r"pip install 'permutogeo\[lidar\]'"):
        from_point_cloud(path)
