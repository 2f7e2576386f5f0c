import pytest
import torch

from permutogeo.denoising.cloud_error import chamfer_distance, point_mesh_distance

GENERATOR = torch.Generator().manual_seed(0)


def test_chamfer_matches_brute_force():
    a, b = (torch.randn(n, 3, generator=GENERATOR).double() for n in (200, 150))
    center = (b.amin(dim=0) + b.amax(dim=0)) / 2
    radius = (b - center).norm(dim=1).max()
    distance = torch.cdist(a / radius, b / radius).square()
    expected = distance.amin(dim=1).mean() + distance.amin(dim=0).mean()
    torch.testing.assert_close(chamfer_distance(a, b), expected)
    torch.testing.assert_close(chamfer_distance(7 * a + 3, 7 * b + 3), expected)
    assert chamfer_distance(a, a) == 0


def test_points_and_faces_of_a_square():
    """Squares of side 2: the sphere around them has the radius sqrt(2)."""
    corner = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    face = torch.tensor([[0, 0], [1, 2], [2, 3]])
    above = torch.tensor([[0.0, 0.0, 0.5], [2.0, 0.0, 0.0]])
    # 0.5 above the square and 1 beside it; both faces are 0.5 from the first point.
    expected = ((0.25 + 1) / 2 + 0.25) / 2
    assert float(point_mesh_distance(above, corner, face)) == pytest.approx(expected, rel=1e-5)
    dense = corner[face].permute(1, 0, 2).repeat(20, 1, 1)
    share = torch.rand(40, 3, 1, generator=GENERATOR)
    on = (dense * share / share.sum(dim=1, keepdim=True)).sum(dim=1)
    assert float(point_mesh_distance(on, corner, face)) < 1e-10
