"""Blend shapes and skinning against their formulas."""

import numpy as np
import pytest
import trimesh
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from permutogeo.datasets.synthetic.body_model import BodyModel


def test_the_formulas(tmp_path, body):
    """Shape and pose as the description of the format writes them, vertex by vertex."""
    b = body.arrays()
    model = BodyModel.load(body.write(tmp_path))
    vertices, joint = b["vertices"].astype(float), b["joint"].astype(float)
    amount = [0.4, 0.7, 0.0, 0.2]
    for k, w in enumerate(amount):
        s = slice(b["shape_offset"][k], b["shape_offset"][k + 1])
        vertices[np.cumsum(b["shape_gap"][s])] += w * 1e-4 * b["shape_dxyz"][s]
        joint += w * 1e-4 * b["joint_dxyz"][k]
    found = model.apply_shape(dict(zip(body.names, amount, strict=True)))
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
    np.testing.assert_allclose(model.apply_pose(vertices, joint, turn), expected, atol=1e-12)


def test_quads_become_triangles(tmp_path, body):
    skewed = body.cube + np.float32(0.3) * (
        body.cube @ np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    )
    model = BodyModel.load(body.write(tmp_path, vertices=skewed))
    mesh = trimesh.Trimesh(model.vertices, model.face, process=False)
    assert mesh.is_watertight and mesh.is_winding_consistent
    assert abs(mesh.volume) == pytest.approx(ConvexHull(skewed).volume)
    # The shorter diagonal of each side is an edge.
    edges = {tuple(sorted(edge)) for edge in mesh.edges.tolist()}
    for quad in body.quads.astype(int):
        diagonals = [tuple(sorted(quad[k::2].tolist())) for k in (0, 1)]
        length = {(a, b): np.linalg.norm(skewed[a] - skewed[b]) for a, b in diagonals}
        (chosen,) = edges & set(diagonals)
        assert length[chosen] <= min(length.values()) + 1e-6
    assert len({round(float(x), 3) for x in length.values()}) == 2


def damages(body):
    return {
        "shape": ({"vertices": body.cube[:, :2]}, r"Expected 'vertices' of shape"),
        "nan": ({"joint": np.full((3, 3), np.nan)}, r"finite numbers in 'joint'"),
        "quads": ({"quads": body.quads + 1}, r"numbers from 0 to 7 in 'quads'"),
        "open": ({"quads": body.quads[:5]}, r"a closed surface in 'quads'"),
        "bones": ({"skin_bone": np.full((8, 4), 3)}, r"numbers from 0 to 2 in 'skin_bone'"),
        "joints": ({"joint": np.zeros((2, 3))}, r"a parent and a joint for each bone"),
        "order": ({"bone_parent": np.array([-1, 2, 1])}, r"parents before their bones"),
        "rows": ({"skin_weight": np.ones((7, 4))}, r"four bones and weights for each vertex"),
        "weights": ({"skin_weight": np.zeros((8, 4))}, r"weights that sum to 1"),
        "places": ({"shape_offset": np.array([0, 3, 2, 5, 7])}, r"ascending offsets of shapes"),
        "count": ({"shape_offset": np.array([0, 7])}, r"an offset for each shape"),
        "vertex": (
            {"shape_gap": np.array([1, 2, 9, 0, 1, 1, 1])},
            r"shapes that move existing vertices",
        ),
        "shifts": ({"joint_dxyz": np.zeros((4, 2, 3))}, r"shifts of all joints by all shapes"),
        "twice": (
            {"shape_name": np.array([*body.names[:3], body.names[0]])},
            r"different names in 'shape_name",
        ),
        "object": ({"joint": np.array([object()])}, r"Expected an archive with"),
    }


DAMAGE_NAMES = [
    "shape",
    "nan",
    "quads",
    "open",
    "bones",
    "joints",
    "order",
    "rows",
    "weights",
    "places",
    "count",
    "vertex",
    "shifts",
    "twice",
    "object",
]


@pytest.mark.parametrize("damage", DAMAGE_NAMES)
def test_damaged_archives(tmp_path, body, damage):
    changed, message = damages(body)[damage]
    path = body.write(tmp_path, **changed)
    with pytest.raises(ValueError, match=rf"makehuman_body\.npz': .*{message}"):
        BodyModel.load(path)
