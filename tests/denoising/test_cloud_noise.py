import numpy as np
import pytest
import torch

from permutogeo.denoising.cloud_noise import estimate_noise, every, find_outliers
from permutogeo.denoising.local_fits import neighbor_tree

GENERATOR = torch.Generator().manual_seed(0)


def sphere(count):
    return torch.nn.functional.normalize(torch.randn(count, 3, generator=GENERATOR), dim=1)


@pytest.mark.parametrize("level", [0.005, 0.02, 0.06])
def test_noise_is_known(level):
    """From a quarter of the spacing to three times the spacing."""
    count = 8000
    pos = sphere(count)
    pos = pos + level * torch.randn(pos.shape, generator=GENERATOR)
    sigma, spacing = estimate_noise(pos, neighbor_tree(pos))
    assert sigma == pytest.approx(level, rel=0.25)
    assert spacing == pytest.approx((4 * np.pi / count) ** 0.5, rel=0.25)


def test_a_clean_cloud_has_no_noise():
    pos = sphere(4000)
    sigma, spacing = estimate_noise(pos, neighbor_tree(pos))
    assert sigma < 0.01 * spacing
    flat = torch.rand(500, 3, generator=GENERATOR) * torch.tensor([1.0, 1.0, 0.0])
    assert estimate_noise(flat, neighbor_tree(flat))[0] < 1e-6


def test_samples_depend_on_the_place_alone():
    pos = sphere(1000).double()
    turn = torch.linalg.qr(torch.randn(3, 3, generator=GENERATOR).double()).Q
    order = torch.randperm(1000, generator=GENERATOR)
    first, second = pos[every(pos, 100)] @ turn, (pos @ turn)[order]
    torch.testing.assert_close(second[every(second, 100)], first)


@pytest.mark.parametrize("level", [0.0, 0.01, 0.05])
def test_outliers_are_found_and_nothing_else(level):
    pos = sphere(4000)
    pos = pos + level * torch.randn(pos.shape, generator=GENERATOR)
    far = torch.rand(80, 3, generator=GENERATOR) * 4 - 2
    found = find_outliers(torch.cat([pos, far]))
    assert int(found[:4000].sum()) <= 2
    is_far = (far.norm(dim=1) - 1).abs() > 0.3
    assert found[4000:][is_far].float().mean() > 0.95


def test_coarse_parts_and_small_clouds_are_no_outliers():
    dense = torch.rand(4000, 3, generator=GENERATOR) * torch.tensor([1.0, 1.0, 0.0])
    coarse = torch.rand(60, 3, generator=GENERATOR) * torch.tensor([1.0, 1.0, 0.0])
    both = torch.cat([dense, coarse + torch.tensor([1.0, 0.0, 0.0])])
    assert not find_outliers(both).any()
    assert not find_outliers(torch.rand(12, 3, generator=GENERATOR)).any()


def test_the_end_of_a_thread_is_no_outlier():
    """Its points are as close to two others as those of a surface, to the eighth they are not."""
    ball, spacing = sphere(4000), (4 * np.pi / 4000) ** 0.5
    thread = torch.tensor([[1.0, 0.0, 0.0]]) * (1 + spacing * torch.arange(1.0, 40).unsqueeze(1))
    thread = thread + 0.2 * spacing * torch.randn(thread.shape, generator=GENERATOR)
    assert not find_outliers(torch.cat([ball, thread])).any()
