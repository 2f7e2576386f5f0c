import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.models import MeshDenoiser
from permutogeo.train._cases import cloud_case, mesh_case
from permutogeo.train._noise import KINDS, add_noise, rotation
from permutogeo.train.denoising import Settings, evaluate, train_denoiser
from permutogeo.transforms import NormalNoise
from permutogeo.transforms._mesh import face_geometry, mean_edge_length

QUICK = Settings(steps=40, batch_size=512, copies=1, samples=500)


def cube() -> Data:
    mesh = trimesh.creation.box().subdivide().subdivide().subdivide()
    pos = torch.from_numpy(np.array(mesh.vertices)).float()
    return Data(pos=pos, face=torch.from_numpy(np.array(mesh.faces).T.copy()).long())


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_noise_has_its_level(kind):
    mesh = cube()
    generator = torch.Generator().manual_seed(0)
    pos = mesh.pos.double()
    moved = torch.stack([add_noise(pos, mesh.face, 0.3, kind, generator) - pos for _ in range(50)])
    size = moved.square().sum(dim=-1).mean().sqrt() / mean_edge_length(pos, mesh.face)
    assert float(size) == pytest.approx(0.3, rel=0.05)


def test_rotations_are_proper():
    turn = rotation(torch.Generator().manual_seed(0))
    torch.testing.assert_close(turn @ turn.T, torch.eye(3, dtype=torch.float64))
    assert float(torch.linalg.det(turn)) == pytest.approx(1.0)


def test_a_case_keeps_faces_and_normals_together():
    case = mesh_case(
        cube(), Settings(levels=(0.0, 0.0), stretch=1.0), torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(case.surface.measured, case.target, atol=1e-5, rtol=0)
    patch = mesh_case(cube(), Settings(faces=100), torch.Generator().manual_seed(0))
    assert patch.target.shape == (100, 3)
    assert patch.pieces.corner.unique().tolist() == list(range(len(patch.pos)))


def test_points_of_a_case_lie_on_the_surface():
    for seed in range(4):  # points at random and points on faces
        generator = torch.Generator().manual_seed(seed)
        case = cloud_case(cube(), Settings(levels=(0.0, 0.0), stretch=1.0), generator)
        flat = (case.pos * case.target).sum(dim=1) * case.pieces.spacing
        torch.testing.assert_close(flat, torch.full_like(flat, 0.5), rtol=0, atol=1e-3)
        assert (case.surface.measured * case.target).sum(dim=1).mean() > 0.9


def test_training_learns_and_repeats():
    """A few steps on a cube do better than plain smoothing, and the seed settles the result."""
    lines: list[str] = []
    model = train_denoiser([cube()], settings=QUICK, log=lines.append)
    assert [line.split(":")[0] for line in lines[::5]] == ["faces, stage 1/3", "points, stage 3/3"]
    pair = NormalNoise(0.3, keep="clean_pos", seed=1)(cube())
    (after,) = evaluate(model, [pair])
    (start,) = evaluate(MeshDenoiser().eval(), [pair])
    assert after < 0.8 * start
    again = train_denoiser([cube()], settings=QUICK, log=lines.append)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_fine_tuning_leaves_the_model_alone():
    model = MeshDenoiser.from_pretrained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tuned = train_denoiser([cube()], model, QUICK, log=lambda line: None)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(tuned.stages[0].mean, model.stages[0].mean)
    assert not torch.equal(tuned.stages[0].lins[0].weight, model.stages[0].lins[0].weight)


def test_nothing_to_train_on():
    with pytest.raises(ValueError, match="got none"):
        train_denoiser([])


def test_a_saved_model_comes_back(tmp_path):
    model = MeshDenoiser([[(1.0, None), (2.0, 0.5)]], hidden_channels=8)
    torch.nn.init.normal_(model.stages[0].lins[-1].weight, std=0.1)
    model.save_pretrained(tmp_path / "own.safetensors")
    again = MeshDenoiser.from_pretrained(tmp_path / "own.safetensors")
    mesh = NormalNoise(0.2, seed=0)(cube())
    assert torch.equal(again(mesh).pos, model(mesh).pos)
    normal = face_geometry(again(mesh).pos, mesh.face)[0]
    assert normal.isfinite().all()
