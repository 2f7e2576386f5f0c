import math

import pytest
import torch

from permutogeo.denoising.cascade import estimate_noise, initial_surface, update_surface
from permutogeo.denoising.triangles import TriangleElements


def test_the_initial_surface_is_the_smoothed_input(icosphere):
    pos, face = icosphere(2, noise=0.02)
    elements = TriangleElements(pos, face)
    scaled = pos / elements.spacing
    surface = initial_surface(elements, scaled)
    normal, center, _ = elements.geometry(elements.smooth(scaled, 3))
    assert torch.equal(surface.normal, normal) and torch.equal(surface.center, center)
    assert torch.equal(surface.estimate, normal)
    assert torch.equal(surface.input_normal, elements.geometry(scaled)[0])
    assert float(surface.area.mean()) == pytest.approx(1.0, rel=1e-4)
    assert surface.smoothed_normals.shape == (face.size(1), 3, 3)
    # Twelve steps in all, nine after the first three.
    expected = elements.geometry(elements.smooth(elements.smooth(scaled, 3), 9))[0]
    assert torch.equal(surface.smoothed_normals[:, 1], expected)


def test_an_update_fits_the_input_to_the_estimate(icosphere):
    pos, face = icosphere(2, noise=0.02)
    elements = TriangleElements(pos, face)
    scaled = pos / elements.spacing
    surface = initial_surface(elements, scaled)
    clean = elements.geometry(icosphere(2)[0])[0]
    updated = update_surface(elements, scaled, surface, clean)
    assert torch.equal(updated.estimate, clean)
    assert torch.equal(updated.input_normal, surface.input_normal)
    before, after = ((each * clean).sum(dim=1).mean() for each in (surface.normal, updated.normal))
    assert after > before


def test_noise_is_the_median_angle():
    angle = torch.tensor([0.0, 0.1, 0.3, 1.0])
    normal = torch.stack([angle.cos(), angle.sin(), torch.zeros(4)], 1)
    pairs = torch.tensor([[0, 1, 2], [1, 2, 3]])  # 0.1, 0.2 and 0.7 apart
    assert float(estimate_noise(normal, pairs)) == pytest.approx(math.log(0.2 / 0.35), abs=1e-4)
    assert float(estimate_noise(normal, pairs[:, :0])) == pytest.approx(math.log(0.002 / 0.35))
