"""Plausible shapes, and rejected poses."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from permutogeo.datasets.synthetic.body_model import BodyModel
from permutogeo.datasets.synthetic.body_sampling import (
    count_penetrations,
    is_valid_pose,
    random_body,
    random_shape,
)


@pytest.fixture(scope="module")
def model(data_dir):
    return BodyModel.load(data_dir / "bodies" / "makehuman_body.npz")


def test_shapes_are_plausible(model):
    ethnic = [name for name in model.targets if name.startswith(("african", "asian", "caucasian"))]
    assert len(ethnic) == 12
    height, volume = [], []
    for k in range(20):
        weights = random_shape(model, np.random.default_rng(k))
        assert set(weights) <= set(model.targets)
        assert sum(weights[name] for name in ethnic) == pytest.approx(1)
        assert all(0 <= weight <= 1 for weight in weights.values())
        for name, weight in weights.items():
            if name.startswith("l-"):
                assert weight == weights["r-" + name[2:]]
        vertices, _ = model.apply_shape(weights)
        mesh = trimesh.Trimesh(vertices, model.face, process=False)
        height.append(np.ptp(vertices[:, 1]))
        volume.append(mesh.volume)
    assert 1.35 < min(height) < 1.65 < max(height) < 2.1
    assert 0.03 < min(volume) < 0.06 < max(volume) < 0.15


def test_limbs_stay_out_of_the_body(model):
    vertices, joint = model.vertices, model.joint
    rotation = np.tile(np.eye(3), (len(joint), 1, 1))
    assert count_penetrations(model, vertices) == 0 and is_valid_pose(model, vertices, vertices)
    rotation[model.bones["upperarm01.L"]] = Rotation.from_euler("z", -50, degrees=True).as_matrix()
    rotation[model.bones["lowerarm01.L"]] = Rotation.from_euler("y", -60, degrees=True).as_matrix()
    pressed = model.apply_pose(vertices, joint, rotation)
    assert count_penetrations(model, pressed) > 50
    assert not is_valid_pose(model, vertices, pressed)
    assert not is_valid_pose(model, vertices, vertices * [1, 1, 6])


def test_shape_weights_of_a_small_model(tmp_path, body):
    model = BodyModel.load(body.write(tmp_path))
    weights = random_shape(model, np.random.default_rng(0))
    assert set(weights) <= set(body.names)
    assert 0 <= weights["caucasian-male-young"] <= 1
    assert random_body(model, np.random.default_rng(0)).shape == (8, 3)
