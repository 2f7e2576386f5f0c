"""Joint limits of random poses."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from permutogeo.datasets.synthetic.body_model import BodyModel
from permutogeo.datasets.synthetic.body_poses import MOTIONS, random_pose


@pytest.fixture(scope="module")
def model(data_dir):
    return BodyModel.load(data_dir / "bodies" / "makehuman_body.npz")


def test_joints_keep_their_ranges(model):
    """Knees bend backward alone, and no single bone turns far."""
    for k in range(20):
        rotation = random_pose(model, np.random.default_rng(k))
        np.testing.assert_allclose(
            rotation @ rotation.swapaxes(1, 2), np.tile(np.eye(3), (163, 1, 1)), atol=1e-9
        )
        turned = Rotation.from_matrix(rotation)
        for side in (".L", ".R"):
            knee = turned[model.bones["lowerleg01" + side]].as_rotvec(degrees=True)
            assert -1e-9 <= knee[0] <= 100 and np.abs(knee[1:]).max() < 1e-9
        angle = np.degrees(turned.magnitude())
        assert angle.max() <= 110
        assert angle[[model.bones[f"spine0{k}"] for k in range(1, 6)]].max() < 15
        assert (
            angle[[model.bones[name] for name in ("head", "jaw", "breast.L", "eye.L")]].max() < 20
        )
    assert max(motion.high for motion in MOTIONS) <= 100


def test_unknown_bones_stay_at_rest(tmp_path, body):
    """Of the three bones of the small model, two have motions and one has none."""
    model = BodyModel.load(body.write(tmp_path))
    rotation = random_pose(model, np.random.default_rng(0))
    np.testing.assert_array_equal(rotation[model.bones["root"]], np.eye(3))
    assert not np.allclose(rotation[model.bones["upperleg01.L"]], np.eye(3))
