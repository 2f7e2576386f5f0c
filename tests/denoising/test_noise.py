import pytest
import torch

from permutogeo.data.geometry import mean_edge_length
from permutogeo.denoising.noise import KINDS, add_noise, random_rotation


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_noise_has_its_level(kind, cube):
    mesh = cube()
    generator = torch.Generator().manual_seed(0)
    pos = mesh.pos.double()
    moved = torch.stack([add_noise(pos, mesh.face, 0.3, kind, generator) - pos for _ in range(50)])
    size = moved.square().sum(dim=-1).mean().sqrt() / mean_edge_length(pos, mesh.face)
    assert float(size) == pytest.approx(0.3, rel=0.05)


def test_rotations_are_proper():
    turn = random_rotation(torch.Generator().manual_seed(0))
    torch.testing.assert_close(turn @ turn.T, torch.eye(3, dtype=torch.float64))
    assert float(torch.linalg.det(turn)) == pytest.approx(1.0)
