import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from permutogeo.datasets import Bodies
from permutogeo.datasets._body_model import BodyModel
from permutogeo.datasets._body_poses import MOTIONS, random_pose
from permutogeo.datasets._body_sampling import is_sound, penetrations, random_body
from permutogeo.datasets._body_shapes import random_shape

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
QUADS = np.array(
    [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]], np.uint16
)
SHAPES = ["caucasian-male-young", "l-leg-fat-incr", "r-leg-fat-incr", "l-leg-fat-decr"]


def arrays():
    """A body model in which everything is random, but the body is a cube."""
    rng = np.random.default_rng(0)
    weight = rng.random((8, 4))
    return {
        "vertices": CUBE,
        "quads": QUADS,
        "shape_name": np.array(SHAPES),
        "shape_offset": np.array([0, 3, 5, 5, 7], np.int32),
        "shape_gap": np.array([1, 2, 4, 0, 7, 3, 1], np.uint16),
        "shape_dxyz": rng.integers(-2000, 2000, (7, 3)).astype(np.int16),
        "bone_name": np.array(["root", "spine05", "upperleg01.L"]),
        "bone_parent": np.array([-1, 0, 1], np.int16),
        "joint": rng.random((3, 3), np.float32),
        "joint_dxyz": rng.integers(-2000, 2000, (4, 3, 3)).astype(np.int16),
        "skin_bone": rng.integers(0, 3, (8, 4)).astype(np.uint8),
        "skin_weight": (weight / weight.sum(axis=1, keepdims=True)).astype(np.float16),
    }


def write(folder, **changed):
    path = folder / "bodies" / "makehuman_body.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **{**arrays(), **changed})
    return path


def test_the_formulas(tmp_path):
    """Shape and pose as the description of the format writes them, vertex by vertex."""
    b = arrays()
    model = BodyModel.load(write(tmp_path))
    vertices, joint = b["vertices"].astype(float), b["joint"].astype(float)
    amount = [0.4, 0.7, 0.0, 0.2]
    for k, w in enumerate(amount):
        s = slice(b["shape_offset"][k], b["shape_offset"][k + 1])
        vertices[np.cumsum(b["shape_gap"][s])] += w * 1e-4 * b["shape_dxyz"][s]
        joint += w * 1e-4 * b["joint_dxyz"][k]
    found = model.shaped(dict(zip(SHAPES, amount, strict=True)))
    np.testing.assert_allclose(found[0], vertices, atol=1e-12)
    np.testing.assert_allclose(found[1], joint, atol=1e-12)
    turn = Rotation.random(3, rng=1).as_matrix()
    frame, head = [turn[0]], [joint[0]]
    for k in (1, 2):
        frame.append(frame[k - 1] @ turn[k])
        head.append(head[k - 1] + frame[k - 1] @ (joint[k] - joint[k - 1]))
    expected = np.zeros_like(vertices)
    for v in range(8):
        weight = b["skin_weight"][v].astype(float)
        for bone, w in zip(b["skin_bone"][v], weight / weight.sum(), strict=True):
            expected[v] += w * (frame[bone] @ (vertices[v] - joint[bone]) + head[bone])
    np.testing.assert_allclose(model.posed(vertices, joint, turn), expected, atol=1e-12)


def test_quads_become_triangles(tmp_path):
    skewed = CUBE + np.float32(0.3) * (CUBE @ np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]]))
    model = BodyModel.load(write(tmp_path, vertices=skewed))
    mesh = trimesh.Trimesh(model.vertices, model.face, process=False)
    assert mesh.is_watertight and mesh.is_winding_consistent
    assert abs(mesh.volume) == pytest.approx(ConvexHull(skewed).volume)
    # The shorter diagonal of each side is an edge.
    edges = {tuple(sorted(edge)) for edge in mesh.edges.tolist()}
    for quad in QUADS.astype(int):
        diagonals = [tuple(sorted(quad[k::2].tolist())) for k in (0, 1)]
        length = {(a, b): np.linalg.norm(skewed[a] - skewed[b]) for a, b in diagonals}
        (chosen,) = edges & set(diagonals)
        assert length[chosen] <= min(length.values()) + 1e-6
    assert len({round(float(x), 3) for x in length.values()}) == 2


DAMAGES = {
    "shape": ({"vertices": CUBE[:, :2]}, r"Expected 'vertices' of shape"),
    "nan": ({"joint": np.full((3, 3), np.nan)}, r"finite numbers in 'joint'"),
    "quads": ({"quads": QUADS + 1}, r"numbers from 0 to 7 in 'quads'"),
    "open": ({"quads": QUADS[:5]}, r"a closed surface in 'quads'"),
    "bones": ({"skin_bone": np.full((8, 4), 3)}, r"numbers from 0 to 2 in 'skin_bone'"),
    "joints": ({"joint": np.zeros((2, 3))}, r"a parent and a joint for each bone"),
    "order": ({"bone_parent": np.array([-1, 2, 1])}, r"parents that stand before their bones"),
    "rows": ({"skin_weight": np.ones((7, 4))}, r"four bones and weights for each vertex"),
    "weights": ({"skin_weight": np.zeros((8, 4))}, r"weights that sum to 1"),
    "places": ({"shape_offset": np.array([0, 3, 2, 5, 7])}, r"places of shapes from first to last"),
    "count": ({"shape_offset": np.array([0, 7])}, r"offsets and a place for each shape"),
    "vertex": ({"shape_gap": np.array([1, 2, 9, 0, 1, 1, 1])}, r"shapes that move vertices there"),
    "shifts": ({"joint_dxyz": np.zeros((4, 2, 3))}, r"shifts of all joints by all shapes"),
    "twice": (
        {"shape_name": np.array([*SHAPES[:3], SHAPES[0]])},
        r"different names in 'shape_name",
    ),
    "object": ({"joint": np.array([object()])}, r"Expected an archive with"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_archives(tmp_path, damage):
    changed, message = DAMAGES[damage]
    write(tmp_path, **changed)
    with pytest.raises(ValueError, match=rf"makehuman_body\.npz': .*{message}"):
        Bodies(tmp_path)


def test_where_bodies_come_from(tmp_path, monkeypatch):
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    assert Bodies().model == "procedural"
    with pytest.raises(FileNotFoundError, match=r"Bodies: .*makehuman_body\.npz.*put it there"):
        Bodies(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Bodies: .*other\.npz"):
        Bodies(model=tmp_path / "other.npz")
    path = write(tmp_path)
    monkeypatch.setenv("PERMUTOGEO_DATA", str(tmp_path))
    assert Bodies().model == Bodies(tmp_path).model == Bodies(model=path).model == str(path)
    assert Bodies(model="procedural").model == "procedural"
    assert str(Bodies(num_bodies=7)) == "Bodies(7)"
    with pytest.raises(ValueError, match=r"Bodies: Expected a number of 1 or more \(got 0\)"):
        Bodies(num_bodies=0)


def test_a_body_depends_on_seed_and_index_alone(tmp_path):
    write(tmp_path)
    first, again = Bodies(tmp_path, 10), Bodies(tmp_path, 99)
    assert torch.equal(first[4].pos, again[4].pos)
    assert not torch.equal(first[4].pos, first[5].pos)
    assert not torch.equal(first[4].pos, Bodies(tmp_path, 10, seed=1)[4].pos)
    assert first[4].face.data_ptr() == first[5].face.data_ptr()
    grown = Bodies(
        tmp_path, 10, pre_transform=lambda data: data.clone().update({"pos": 2 * data.pos})
    )
    assert torch.equal(grown[4].pos, 2 * first[4].pos)


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
        vertices, _ = model.shaped(weights)
        mesh = trimesh.Trimesh(vertices, model.face, process=False)
        height.append(np.ptp(vertices[:, 1]))
        volume.append(mesh.volume)
    assert 1.35 < min(height) < 1.65 < max(height) < 2.1
    assert 0.03 < min(volume) < 0.06 < max(volume) < 0.15


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


def test_limbs_stay_out_of_the_body(model):
    vertices, joint = model.vertices, model.joint
    rotation = np.tile(np.eye(3), (len(joint), 1, 1))
    assert penetrations(model, vertices) == 0 and is_sound(model, vertices, vertices)
    rotation[model.bones["upperarm01.L"]] = Rotation.from_euler("z", -50, degrees=True).as_matrix()
    rotation[model.bones["lowerarm01.L"]] = Rotation.from_euler("y", -60, degrees=True).as_matrix()
    pressed = model.posed(vertices, joint, rotation)
    assert penetrations(model, pressed) > 50
    assert not is_sound(model, vertices, pressed)
    assert not is_sound(model, vertices, vertices * [1, 1, 6])


def test_the_bodies_themselves(data_dir, model):
    dataset = Bodies(data_dir, 500)
    for k in (0, 250, 499):
        data = dataset[k]
        mesh = trimesh.Trimesh(data.pos, data.face.T, process=False)
        assert data.pos.shape == (13380, 3) and data.face.shape == (3, 26756)
        assert mesh.is_watertight and mesh.is_winding_consistent and mesh.euler_number == 2
        assert 0.03 < mesh.volume < 0.15
        rest, _ = model.shaped(random_shape(model, np.random.default_rng([0, k])))
        assert is_sound(model, rest, data.pos.double().numpy())
        assert penetrations(model, data.pos.double().numpy()) <= 3
        expected = random_body(model, np.random.default_rng([0, k]))
        np.testing.assert_allclose(data.pos, expected, atol=1e-6)
