import numpy as np
import pytest
import trimesh

from permutogeo.data import from_mesh


@pytest.fixture(scope="module")
def surfaces(examples):
    return examples("_surfaces")


@pytest.mark.parametrize("name", ["dense", "uneven"])
def test_finer_surfaces_stay_near_the_coarse_one(surfaces, name):
    ball = trimesh.creation.icosphere(3)
    mesh = from_mesh(np.array(ball.vertices), np.array(ball.faces))
    found = getattr(surfaces, name)(mesh, 1200, np.random.default_rng(0))
    assert found.face.size(1) == pytest.approx(1200, abs=2)
    edge = float(np.median(ball.edges_unique_length))
    assert (found.pos.norm(dim=1) - 1).abs().max() < 0.2 * edge
    a, b, _ = found.pos[found.face]
    length = (b - a).norm(dim=1)
    assert length.mean() < 0.75 * edge


def test_quadric_decimation_makes_triangles_uneven(surfaces):
    ball = trimesh.creation.icosphere(3)
    ball.vertices[:, 2] *= 0.3  # strongly bent at the rim
    mesh = from_mesh(np.array(ball.vertices), np.array(ball.faces))
    spread = {}
    for name in ("dense", "uneven"):
        found = getattr(surfaces, name)(mesh, 2000, np.random.default_rng(0))
        a, b, _ = found.pos[found.face]
        length = (b - a).norm(dim=1)
        spread[name] = float(length.std() / length.mean())
    assert spread["uneven"] > 1.2 * spread["dense"]
