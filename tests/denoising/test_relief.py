import pytest
import torch

from permutogeo.datasets.synthetic.fractal_terrain import fractal_terrain
from permutogeo.denoising.noise import smooth_noise
from permutogeo.denoising.relief import piecewise_smooth, wave_sizes
from permutogeo.denoising.triangles import TriangleElements

OPEN = torch.tensor([True])


def bowl(size=80):
    """A round open surface in units of its edges."""
    field = fractal_terrain(2 * size**2, slope=1e-6)
    x, y = field.pos[:, 0] - size / 2, field.pos[:, 1] - size / 2
    return torch.stack([x, y, (x**2 + y**2) / (2 * size)], 1), field.face


@pytest.mark.parametrize("exponent", [0.5, 0.9])
def test_waves_of_terrain_grow_with_its_power(exponent):
    mesh = fractal_terrain(20_000, exponent, 15.0)
    sizes = wave_sizes(TriangleElements(mesh.pos.double(), mesh.face), mesh.pos, (4, 16, 64))
    growth = float(sizes[2] / sizes[0]) ** 0.5
    assert growth == pytest.approx(2**exponent, rel=0.25)


@pytest.mark.parametrize("correlation", [0.6, 0.9])
def test_what_smoothing_leaves_of_terrain_is_not_smooth(correlation):
    mesh = fractal_terrain(12_000, 0.7, 20.0, seed=1)
    elements = TriangleElements(mesh.pos.double(), mesh.face)
    moved = elements.smooth(mesh.pos, 20)
    assert (
        float(piecewise_smooth(elements, mesh.pos, moved, torch.tensor([correlation]), OPEN)) == 0
    )


@pytest.mark.parametrize("correlation, steps", [(0.6, 2), (0.9, 12)])
def test_a_bowl_is_smooth_below_noise_of_one_length(correlation, steps):
    pos, face = bowl()
    elements = TriangleElements(pos.double(), face)
    noise = smooth_noise(pos, face, steps, torch.Generator().manual_seed(0))
    noisy = pos + 0.3 * noise * torch.tensor([0.0, 0.0, 1.0])
    assert float(piecewise_smooth(elements, noisy, pos, torch.tensor([correlation]), OPEN)) == 1


def test_planes_have_no_waves_to_compare():
    pos, face = bowl(40)
    flat = pos * torch.tensor([1.0, 1.0, 0.0])
    noisy = flat + 0.1 * smooth_noise(pos, face, 2, torch.Generator().manual_seed(0))
    elements = TriangleElements(flat.double(), face)
    assert float(piecewise_smooth(elements, noisy, flat, torch.tensor([0.6]), OPEN)) == 1


def test_parts_are_judged_each_by_itself():
    terrain, (pos, face) = fractal_terrain(12_000, 0.7, 20.0, seed=1), bowl()
    moved = TriangleElements(terrain.pos.double(), terrain.face).smooth(terrain.pos, 20)
    noise = smooth_noise(pos, face, 2, torch.Generator().manual_seed(0))
    noisy = pos + 0.3 * noise * torch.tensor([0.0, 0.0, 1.0])
    both = TriangleElements(
        torch.cat([terrain.pos, noisy]).double(),
        torch.cat([terrain.face, face + len(terrain.pos)], 1),
    )
    found = piecewise_smooth(
        both,
        torch.cat([terrain.pos, noisy]),
        torch.cat([moved, pos]),
        torch.tensor([0.6, 0.6]),
        torch.tensor([True, True]),
    )
    assert found.tolist() == [0, 1]
