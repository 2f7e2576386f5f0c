import pytest
import torch

from permutogeo.data.geometry import mean_edge_length
from permutogeo.denoising.noise import FUSED_FACTOR, KINDS, SCAN_KINDS, add_noise, random_rotation
from permutogeo.denoising.vertex_update import VertexUpdate


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_noise_has_its_level(kind, cube):
    mesh = cube()
    generator = torch.Generator().manual_seed(0)
    pos = mesh.pos.double()
    moved = torch.stack([add_noise(pos, mesh.face, 0.3, kind, generator) - pos for _ in range(50)])
    size = moved.square().sum(dim=-1).mean().sqrt() / mean_edge_length(pos, mesh.face)
    assert float(size) == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("kind", sorted(set(SCAN_KINDS)))
def test_noise_of_scanners_has_its_level(kind, cube):
    mesh = cube()
    generator = torch.Generator().manual_seed(0)
    pos = mesh.pos.double()
    moved = add_noise(pos, mesh.face, 0.3, kind, generator) - pos
    size = moved.square().sum(dim=-1).mean().sqrt() / mean_edge_length(pos, mesh.face)
    expected = 0.3 * (FUSED_FACTOR if kind == "fused" else 1)
    assert float(size) == pytest.approx(expected, rel=0.15)
    if kind == "fused":
        assert VertexUpdate(mesh.face, len(pos)).correlation(moved.float()) > 0.8


def test_rotations_are_proper():
    turn = random_rotation(torch.Generator().manual_seed(0))
    torch.testing.assert_close(turn @ turn.T, torch.eye(3, dtype=torch.float64))
    assert float(torch.linalg.det(turn)) == pytest.approx(1.0)
