"""COPC files: read by laspy, and refused if their hierarchy lies."""

import numpy as np
import pytest
import torch

from permutogeo.data import from_point_cloud, to_point_cloud
from permutogeo.data.formats.copc import _ENTRY, CopcFile, octree

laspy = pytest.importorskip("laspy")


@pytest.fixture
def copc(tmp_path, monkeypatch):
    """An octree of several levels over 5,000 points."""
    monkeypatch.setattr("permutogeo.data.formats.copc._LEAF", 300)
    monkeypatch.setattr("permutogeo.data.formats.copc._CELLS", 8)
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(5000, 3, generator=generator, dtype=torch.float64)
    pos = pos * torch.tensor([100.0, 80.0, 10.0], dtype=torch.float64) + 5e5
    data = from_point_cloud(pos, dtype=None)
    data.number = torch.arange(5000)
    return data, to_point_cloud(data, tmp_path / "a.copc.laz")


def test_laspy_reads_what_we_write(copc):
    data, path = copc
    with laspy.CopcReader.open(str(path)) as reader:
        assert len(reader.query()) == 5000
        low, high = np.array([5e5 + 20, 5e5 + 30]), np.array([5e5 + 50, 5e5 + 70])
        found = reader.query(bounds=laspy.copc.Bounds(low, high))
        coarse = reader.query(level=0)
    flat = data.pos[:, :2].numpy()
    expected = ((flat >= low) & (flat <= high)).all(axis=1)
    assert set(np.asarray(found["number"])) == set(np.flatnonzero(expected))
    assert 0 < len(coarse) <= 8**3


def test_all_points_and_attributes(copc, las_file, tmp_path):
    data, path = copc
    back = from_point_cloud(path)
    torch.testing.assert_close(back.pos, data.pos[back.number], rtol=0, atol=1e-6)
    assert sorted(back.number.tolist()) == list(range(5000))
    full = from_point_cloud(las_file())
    again = from_point_cloud(to_point_cloud(full, tmp_path / "b.copc.laz"))
    order, other = full.gps_time.argsort(), again.gps_time.argsort()
    for name in ("pos", "x", "big", "vec", "reflectance", "Pulse_width", "intensity"):
        assert torch.equal(full[name][order], again[name][other]), name
    plain = laspy.read(to_point_cloud(again, tmp_path / "c.laz"))
    users = [record.user_id for record in (*plain.vlrs, *plain.evlrs)]
    assert "copc" not in users and {"mine", "after"} <= set(users)


def test_nodes_of_a_box(copc):
    data, path = copc
    file = CopcFile(path)
    assert len(file.nodes) > 20 and sum(node.count for node in file.nodes) == 5000
    low, high = np.array([5e5 + 20, 5e5 + 30]), np.array([5e5 + 25, 5e5 + 35])
    nodes = file.nodes_in(low, high)
    assert 0 < len(nodes) < len(file.nodes)
    found = np.concatenate([file.read_node(node)["number"] for node in nodes])
    flat = data.pos[:, :2].numpy()
    assert set(np.flatnonzero(((flat >= low) & (flat <= high)).all(axis=1))) <= set(found)


def test_octree_holds_each_point_once():
    pos = np.random.default_rng(0).random((120_000, 3))
    nodes = octree(pos, np.zeros(3), 1.0)
    assert sorted(np.concatenate(list(nodes.values()))) == list(range(len(pos)))
    assert len({key[0] for key in nodes}) > 1
    for key, rows in nodes.items():
        width = 0.5 ** key[0]
        assert (np.floor(pos[rows] / width) == key[1:]).all()


def change_entry(path, row, name, value):
    """Change one number of the hierarchy."""
    content = bytearray(path.read_bytes())
    start = CopcFile(path).header.evlrs[0]
    page = start.bytes
    at = content.find(page)
    entries = np.frombuffer(page, _ENTRY).copy()
    if name == "key":
        entries[name][row] = value
    else:
        entries[name][row] += value
    content[at : at + len(page)] = entries.tobytes()
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", 10, "header claims 5,000 points, the hierarchy"),
        ("count", -(2**20), "wrong entry"),
        ("offset", 2**40, "wrong entry"),
        ("size", 2**30, "wrong entry"),
        ("offset", 1, "overlapping nodes"),
        ("key", (99, 0, 0, 0), "wrong entry"),
        ("key", (2, 7, 0, 0), "wrong entry"),
    ],
)
def test_a_hierarchy_that_lies(copc, name, value, message):
    _, path = copc
    change_entry(path, 0, name, value)
    with pytest.raises(ValueError, match=message):
        CopcFile(path)


def test_points_outside_of_their_node(copc):
    _, path = copc
    file = CopcFile(path)
    page = np.frombuffer(file.header.evlrs[0].bytes, _ENTRY)
    row = int(np.argmax(page["key"][:, 0]))
    level, x, y, z = page["key"][row]
    moved = (level, 2**level - 1 - x, 2**level - 1 - y, z)
    keys = {tuple(key) for key in page["key"]}
    if moved in keys:
        moved = (level, x, y, 2**level - 1)
    change_entry(path, row, "key", moved)
    file = CopcFile(path)
    with pytest.raises(ValueError, match=r"claims node .* for points outside of it"):
        for node in file.nodes:
            file.read_node(node)


def test_other_files(las_file, tmp_path):
    with pytest.raises(ValueError, match="the first record is not that of a COPC file"):
        CopcFile(las_file())
    old = from_point_cloud(las_file("old.laz", version="1.2", point_format=3))
    with pytest.raises(ValueError, match=r"Expected a point format in \(6, 7, 8\) for COPC"):
        to_point_cloud(old, tmp_path / "b.copc.laz")
    assert not (tmp_path / "b.copc.laz").exists()
