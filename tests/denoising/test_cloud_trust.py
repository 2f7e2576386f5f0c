import pytest
import torch

from permutogeo.denoising.cloud_noise import estimate_noise
from permutogeo.denoising.cloud_trust import displacement_trust, one_sheet
from permutogeo.denoising.local_fits import neighbor_tree


def sheet(count, generator, height=0.0):
    flat = torch.rand(count, 3, generator=generator).double()
    return flat * torch.tensor([1.0, 1.0, 0.0]) + torch.tensor([0.0, 0.0, height])


def trust(pos, sigma, spacing):
    return displacement_trust(pos, neighbor_tree(pos), sigma, spacing)


@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0])
def test_noise_of_one_sheet_is_removed(noise):
    generator = torch.Generator().manual_seed(0)
    pos, spacing = sheet(1600, generator), 1 / 40
    pos = pos + noise * spacing * torch.randn(pos.shape, generator=generator).double()
    assert trust(pos, noise * spacing, spacing).mean() > 0.97


def test_only_the_thin_part_is_left_alone():
    """Two sheets beside a single one with the same noise."""
    generator = torch.Generator().manual_seed(0)
    spacing = 1 / 30
    parts = [sheet(900, generator), sheet(900, generator, 1.2 * spacing), sheet(2700, generator)]
    parts[2] = parts[2] * torch.tensor([3.0, 1.0, 1.0]) + torch.tensor([2.0, 0.0, 0.0])
    pos = torch.cat(parts)
    pos = pos + 0.15 * spacing * torch.randn(pos.shape, generator=generator).double()
    found = trust(pos, 0.15 * spacing, spacing)
    assert found[:1800].mean() < 0.15 and found[1800:].mean() > 0.95


def test_small_noise_of_a_coarse_cloud_is_left_alone():
    generator = torch.Generator().manual_seed(0)
    circle = torch.nn.functional.normalize(torch.randn(200, 3, generator=generator), dim=1).double()
    waves = circle * (1 + 0.1 * torch.sin(9 * circle[:, :1]))
    assert trust(waves, 0.01, 0.25).max() == 0.0
    assert trust(waves[:20], 0.01, 0.8).min() == 1.0, "too few to tell"


def test_a_shape_that_is_too_fine_for_its_points_is_left_alone():
    """Narrow crossing sheets beside a wide one: deviations differ over the cloud."""
    generator = torch.Generator().manual_seed(0)
    turns = torch.linalg.qr(torch.randn(60, 3, 3, generator=generator).double()).Q
    strips = (sheet(3000, generator).view(60, 50, 3) - 0.5) @ turns * 0.4
    noise = 0.15 / 60  # spacings
    pos = torch.cat([strips.reshape(-1, 3) + 0.5, 0.7 * sheet(1500, generator, 3.0)])
    pos = pos + noise * torch.randn(pos.shape, generator=generator).double()
    sigma, spacing = estimate_noise(pos, neighbor_tree(pos))
    assert sigma > 3 * noise, "shape looks like noise"
    assert trust(pos, sigma, spacing).max() < 0.05


@pytest.mark.parametrize("thickness, expected", [(0.0, 1.0), (4.0, 0.0)])
def test_two_sheets_that_became_one_are_found(thickness, expected):
    """Two sheets, in standard deviations of their noise, moved onto the plane between them."""
    generator = torch.Generator().manual_seed(0)
    moved = sheet(10_000, generator)
    side = torch.where(torch.arange(10_000) % 2 == 0, 0.5, -0.5).double()
    height = thickness * side + torch.randn(10_000, generator=generator).double()
    normal = torch.tensor([0.0, 0.0, 1.0]).double().expand(10_000, 3)
    assert one_sheet(moved + 0.01 * height.unsqueeze(1) * normal, moved, normal) == expected
