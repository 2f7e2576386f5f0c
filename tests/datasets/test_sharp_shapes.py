import numpy as np
import pytest
import torch
import trimesh

from permutogeo.datasets import SharpShapes
from permutogeo.datasets.synthetic.patch_mesh import Edges, triangle_quality
from permutogeo.datasets.synthetic.random_solids import KINDS

SMALL = (600, 900)


def as_trimesh(pos, face):
    return trimesh.Trimesh(np.asarray(pos, float), np.asarray(face), process=False)


def test_str_and_errors():
    assert str(SharpShapes(5)) == "SharpShapes(5)"
    with pytest.raises(ValueError, match=r"SharpShapes: Expected a number of 1 or more \(got 0\)"):
        SharpShapes(0)
    with pytest.raises(ValueError, match=r"SharpShapes: Expected 'num_faces' .*got \(900, 600\)"):
        SharpShapes(3, num_faces=(900, 600))
    with pytest.raises(ValueError, match=r"Expected a seed of 0 or more \(got -1\)"):
        SharpShapes(3, seed=-1)


@pytest.fixture(scope="module")
def shapes():
    return SharpShapes(len(KINDS), num_faces=SMALL)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[kind.__name__ for kind in KINDS])
def test_shapes_are_sound(shapes, kind):
    data = shapes[kind]
    mesh = as_trimesh(data.pos, data.face.T)
    assert mesh.is_watertight and mesh.is_winding_consistent and mesh.volume > 0
    assert mesh.body_count == 1
    assert 0.7 * SMALL[0] < len(mesh.faces) < 1.4 * SMALL[1]
    assert triangle_quality(mesh.triangles).min() > 0.05
    edges = Edges.of(mesh.faces)
    length = np.linalg.norm(np.diff(mesh.vertices[edges.ends], axis=1)[:, 0], axis=1)
    assert length.std() < 0.35 * length.mean()
    # Inside a patch, neighbors bend little; creases lie between patches.
    patch = data.face_patch.numpy()[edges.faces]
    normal = mesh.face_normals[edges.faces]
    angle = np.degrees(np.arccos(np.clip((normal[:, 0] * normal[:, 1]).sum(axis=1), -1, 1)))
    inner = patch[:, 0] == patch[:, 1]
    assert np.percentile(angle[inner], 98) < 70
    if (~inner).any():
        assert np.median(angle[~inner]) > 2 * np.median(angle[inner])


def test_shapes_have_creases_of_all_angles(shapes):
    angles = []
    for data in shapes:
        edges = Edges.of(data.face.t().numpy())
        crease = np.diff(data.face_patch.numpy()[edges.faces], axis=1)[:, 0] != 0
        normal = as_trimesh(data.pos, data.face.T).face_normals[edges.faces[crease]]
        angles.append(np.degrees(np.arccos(np.clip((normal[:, 0] * normal[:, 1]).sum(1), -1, 1))))
    share = np.histogram(np.concatenate(angles), [0, 20, 50, 80, 100, 180])[0]
    assert (share > 0).all()


def test_a_shape_depends_on_seed_and_index_alone(shapes):
    again = SharpShapes(50, num_faces=SMALL)[3]
    for name in ("pos", "face", "face_patch"):
        assert torch.equal(again[name], shapes[3][name])
    other = SharpShapes(50, num_faces=SMALL, seed=1)[3]
    assert other.pos.shape != again.pos.shape or not torch.equal(other.pos, again.pos)
