"""E57 files written by pye57."""

import re

import numpy as np
import pytest
import torch

from permutogeo.data import from_point_cloud, to_point_cloud

pye57 = pytest.importorskip("pye57")
COLORS = ("colorRed", "colorGreen", "colorBlue")


@pytest.fixture
def scans(tmp_path):
    """Two scans with poses; only the first has colors and invalid points."""
    rng, arrays = np.random.default_rng(0), []
    path = tmp_path / "a.e57"
    with pye57.E57(str(path), mode="w") as file:
        for index in range(2):
            data = {f"cartesian{axis}": rng.random(100).astype("f") for axis in "XYZ"}
            data["intensity"] = rng.random(100).astype("f")
            if index == 0:
                data |= {name: rng.integers(0, 256, 100).astype("B") for name in COLORS}
                data["cartesianInvalidState"] = (np.arange(100) % 10 == 0).astype("b")
            turn = np.array([np.cos(0.3), 0, 0, np.sin(0.3)])
            shift = np.array([5e5, 5.4e6, 10.0 * index])
            file.write_scan_raw(data, rotation=turn, translation=shift)
            arrays.append(data)
    return path, arrays


def test_all_scans_in_one_system(scans):
    path, arrays = scans
    data = from_point_cloud(path)
    assert data.num_nodes == 190 and data.pos.dtype == torch.float64
    assert data.scan.tolist() == [0] * 90 + [1] * 100
    with pye57.E57(str(path)) as file:
        theirs = [file.read_scan(i, intensity=True, ignore_missing_fields=True) for i in (0, 1)]
    expected = np.concatenate([[t[f"cartesian{axis}"] for axis in "XYZ"] for t in theirs], axis=1)
    np.testing.assert_allclose(data.pos.numpy(), expected.T, rtol=0, atol=1e-8)
    intensity = np.concatenate([t["intensity"] for t in theirs])
    np.testing.assert_allclose(data.intensity.numpy(), intensity)
    valid = arrays[0]["cartesianInvalidState"] == 0
    colors = np.stack([arrays[0][name][valid] for name in COLORS], axis=1) / 255
    np.testing.assert_allclose(data.x[:90].numpy(), colors, atol=1e-6)
    assert not data.x[90:].any()


def test_as_las(scans, tmp_path):
    data = from_point_cloud(scans[0])
    back = from_point_cloud(to_point_cloud(data, tmp_path / "a.laz"))
    torch.testing.assert_close(back.pos, data.pos, rtol=0, atol=1e-6)
    assert torch.equal(back.intensity, data.intensity) and torch.equal(back.scan, data.scan)


def test_damage(scans, tmp_path):
    content = scans[0].read_bytes()
    path = tmp_path / "cut.e57"
    for length in (10, 100, 2000, len(content) - 10):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"cut.e57': Expected") as caught:
            from_point_cloud(path)
        assert not re.search(r"\*\*\*|\.cpp|\n", str(caught.value))  # no sources of the library
    with pytest.raises(ValueError, match="Expected one of"):
        to_point_cloud(from_point_cloud(scans[0]), tmp_path / "b.e57")
