import numpy as np
import torch

from permutogeo.denoising.local_fits import fit_quadrics, nearest, neighbor_tree, project_points

GENERATOR = torch.Generator().manual_seed(0)


def paraboloid(count=400, noise=0.0):
    uv = torch.rand(count, 2, generator=GENERATOR) * 2 - 1
    height = 0.3 * uv[:, 0] ** 2 - 0.2 * uv.prod(dim=1) + 0.1 * uv[:, 1]
    pos = torch.cat([uv, height.unsqueeze(1)], 1)
    return pos + noise * torch.randn(pos.shape, generator=GENERATOR)


def everyone(pos):
    center = torch.arange(len(pos))
    return center, center.unsqueeze(1), torch.ones(len(pos), 1)


def test_least_squares_matches_numpy():
    pos = paraboloid(noise=0.02)
    center, _, _ = everyone(pos)
    index, distance = nearest(neighbor_tree(pos), pos, 40)
    fits = fit_quadrics(pos, index, center, 0.0)
    frame = fits.frame.double()
    for i in (0, 17, 399):
        local = (pos[index[i]] - fits.origin[i]).double() @ frame[i] / fits.radius[i]
        around = (pos[index[i]] - pos[i]).double() @ frame[i] / fits.radius[i]
        weight = (1 - around[:, :2].square().sum(dim=1)).clamp(min=0) ** 2 + 1e-6
        u, v, height = local.t().numpy()
        basis = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], 1)
        root = weight.sqrt().numpy()
        expected = np.linalg.lstsq(basis * root[:, None], height * root, rcond=None)[0]
        np.testing.assert_allclose(fits.quadric[i, 0].numpy(), expected, atol=5e-3)
    torch.testing.assert_close(fits.radius, distance[:, -1])


def test_points_of_a_quadric_stay():
    pos = paraboloid()
    center, owner, share = everyone(pos)
    index, _ = nearest(neighbor_tree(pos), pos, 30)
    moved, normal = project_points(fit_quadrics(pos, index, center, 0.01), pos, owner, share)
    # Heights over the tangent plane are quadratic up to the fourth order.
    assert moved[:, 1:].norm(dim=2).median() < 1e-3
    assert (normal.norm(dim=1) - 1).abs().max() < 1e-5


def test_blended_fits_agree_with_those_of_each_point():
    pos = paraboloid(2000, noise=0.01)
    center, owner, share = everyone(pos)
    index, _ = nearest(neighbor_tree(pos), pos, 60)
    fits = fit_quadrics(pos, index, center, 0.01)
    alone, _ = project_points(fits, pos, owner, share)
    near, _ = nearest(neighbor_tree(pos), pos, 4)
    blended, _ = project_points(fits, pos, near, torch.full((2000, 4), 0.25))
    inside = pos[:, :2].abs().amax(dim=1) < 0.8
    assert (alone - blended)[inside, 1].norm(dim=1).mean() < 0.003


def test_residual_is_the_noise():
    """An unbiased estimate at all sizes: the degrees of freedom are counted."""
    pos = paraboloid(4000)
    pos[:, 2] += 0.01 * torch.randn(4000, generator=GENERATOR)
    center, _, _ = everyone(pos)
    for size in (14, 30, 60):
        index, _ = nearest(neighbor_tree(pos), pos, size)
        found = fit_quadrics(pos, index, center, 0.0).residual[:, 0]
        assert abs(float(found.square().mean().sqrt()) / 0.01 - 1) < 0.15


def test_degenerate_neighborhoods_are_finite():
    line = torch.linspace(0, 1, 50).unsqueeze(1) * torch.tensor([[1.0, 2.0, 3.0]])
    center, owner, share = everyone(line)
    for pos in (line, torch.zeros(50, 3)):
        index = torch.arange(20).expand(50, 20)
        moved, normal = project_points(fit_quadrics(pos, index, center, 0.0), pos, owner, share)
        assert moved.isfinite().all() and normal.isfinite().all()
