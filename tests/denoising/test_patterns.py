import math

import pytest
import torch

from permutogeo.data.geometry import vertex_normals
from permutogeo.denoising.noise import smooth_noise
from permutogeo.denoising.patterns import noise_share, periodicity, unevenness
from permutogeo.denoising.triangles import TriangleElements


def displaced(icosphere, height):
    """Elements, positions and displacements of a sphere, in units of its edges."""
    pos, face = icosphere(4)
    elements = TriangleElements(pos, face)
    pos = pos / elements.spacing
    return elements, pos, height(pos, face).unsqueeze(1) * vertex_normals(pos, face)


def wave(length):
    return lambda pos, face: torch.sin(2 * math.pi / length * pos[:, 0])


def noise(steps):
    generator = torch.Generator().manual_seed(steps)
    return lambda pos, face: smooth_noise(pos, face, steps, generator).squeeze(1)


@pytest.mark.parametrize("height, least, most", [(wave(4), 0.35, 1.0), (noise(0), 0.05, 0.2)])
def test_waves_repeat_and_noise_does_not(icosphere, height, least, most):
    elements, pos, step = displaced(icosphere, height)
    length, share = periodicity(elements, pos, step, torch.tensor([True]))[0].tolist()
    assert least < share < most
    assert 2 < length < 7
    assert not periodicity(elements, pos, step, torch.tensor([False])).any()


def test_correlated_noise_does_not_repeat(icosphere):
    elements, pos, step = displaced(icosphere, noise(3))
    length, share = periodicity(elements, pos, step, torch.tensor([True]))[0].tolist()
    assert share < 0.235 and 4 < length < 8


def test_noise_is_everywhere_and_detail_is_not(icosphere):
    """Detail on one side of a sphere, beside noise on all of it, as two parts of one mesh."""
    elements, pos, step = displaced(icosphere, noise(1))
    one_side = step * torch.sigmoid(2 * pos[:, :1])
    both = TriangleElements(
        torch.cat([pos, 2 * pos]), torch.cat([elements.face, elements.face + len(pos)], 1)
    )
    uneven = unevenness(both, torch.cat([pos, 2 * pos]), torch.cat([step, 2 * one_side]))
    assert uneven[0] < 5 and uneven[1] > 12


def test_independent_displacements_are_split_by_their_floor(icosphere):
    """Noise is everywhere; detail is on one side and no larger than the detail that is left."""
    elements, pos, step = displaced(icosphere, noise(0))
    rough = pos + 0.05 * step.roll(1, 0)
    one_side = step * torch.sigmoid(2 * pos[:, :1])
    shares = [float(noise_share(elements, rough, 0.03 * each)) for each in (step, one_side)]
    assert shares[0] > 0.95 and shares[1] < 0.5
