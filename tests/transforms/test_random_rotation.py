import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import FaceNormals, RandomRotation, VertexNormals

FACE = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2], [2, 3, 1, 3]])


def mesh():
    return FaceNormals()(
        VertexNormals()(Data(pos=torch.rand(4, 3, dtype=torch.float64), face=FACE))
    )


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("degrees", [180, 40])
def test_normals_are_those_of_the_rotated_mesh(axis, degrees):
    data = mesh()
    out = RandomRotation(degrees, axis)(data)
    again = FaceNormals()(VertexNormals()(Data(pos=out.pos, face=FACE)))
    torch.testing.assert_close(out.normal, again.normal)
    torch.testing.assert_close(out.face_normal, again.face_normal)
    torch.testing.assert_close(torch.cdist(out.pos, out.pos), torch.cdist(data.pos, data.pos))
    if axis is not None:
        torch.testing.assert_close(out.pos[:, axis], data.pos[:, axis])


def test_angles_are_bounded():
    eye = Data(pos=torch.eye(3, dtype=torch.float64))
    for seed in range(50):
        trace = RandomRotation(25, seed=seed)(eye).pos.trace()
        assert torch.rad2deg(((trace - 1) / 2).clamp(-1, 1).arccos()) <= 25 + 1e-6


def test_all_rotations_are_alike():
    """The mean of a rotated vector over all rotations is 0."""
    point = Data(pos=torch.tensor([[1.0, 0, 0]]))
    transform = RandomRotation(generator=torch.Generator().manual_seed(0))
    mean = torch.cat([transform(point).pos for _ in range(2000)]).mean(0)
    assert mean.abs().max() < 0.06


def test_errors():
    with pytest.raises(ValueError, match=r"'degrees' from 0 to 180 \(got 200\)"):
        RandomRotation(200)
    with pytest.raises(ValueError, match=r"'axis' of 0, 1, 2 or None \(got 3\)"):
        RandomRotation(axis=3)
    with pytest.raises(ValueError, match=r"RandomRotation: Expected floating 'pos' .*N, 3"):
        RandomRotation()(Data(pos=torch.rand(5, 2)))
