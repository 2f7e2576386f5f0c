"""Generated surveys."""

import numpy as np
import pytest

from permutogeo.data import from_point_cloud
from permutogeo.datasets import terrain_points, write_terrain
from permutogeo.datasets.synthetic import terrain

pytest.importorskip("laspy")


def test_a_survey(tmp_path, monkeypatch):
    monkeypatch.setattr(terrain, "CHUNK", 3000)
    seen = []
    path = write_terrain(tmp_path / "a.laz", 10_000, density=0.25, on_progress=seen.append)
    data = from_point_cloud(path)
    assert data.num_nodes == 10_000 and seen[-1] == 1.0
    extent = np.ptp(data.pos.numpy(), axis=0)
    np.testing.assert_allclose(extent[:2], 200, atol=2)
    assert set(data.classification.tolist()) == {2, 5, 6, 7}
    ground = data.classification == 2
    error = (data.pos[:, 2] - data.clean_z)[ground].numpy()
    assert 0.045 < error.std() < 0.055 and abs(error).max() < 0.5
    wild = data.classification == 7
    assert ((data.pos[:, 2] - data.clean_z)[wild].abs() > 4).all()
    again = from_point_cloud(write_terrain(tmp_path / "b.laz", 10_000, density=0.25))
    other = from_point_cloud(write_terrain(tmp_path / "c.laz", 10_000, density=0.25, seed=1))
    assert again.pos.equal(data.pos) and not other.pos.equal(data.pos)


def test_ground_is_the_same_wherever_it_is_asked():
    x, y = np.random.default_rng(0).random((2, 100)) * 500
    height = terrain.ground_height(x, y)
    assert np.array_equal(terrain.ground_height(x[::2], y[::2]), height[::2])
    first = next(terrain_points(1000, seed=1))
    assert np.array_equal(next(terrain_points(1000, seed=1))["pos"], first["pos"])


def test_arguments(tmp_path):
    with pytest.raises(ValueError, match="Expected points, a positive density"):
        next(terrain_points(0))
    with pytest.raises(ValueError, match=r"Expected one of \.las, \.laz"):
        write_terrain(tmp_path / "a.ply", 10)
