import pytest
import torch

from permutogeo.denoising.noise import add_noise
from permutogeo.denoising.noise_estimate import Roughness, grouped_quantile, roughness, trust
from permutogeo.denoising.triangles import TriangleElements


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_the_noise_of_a_sphere_is_estimated(icosphere, level):
    pos, face = icosphere(4)
    noisy = add_noise(pos.double(), face, level, "normal", torch.Generator().manual_seed(0))
    elements = TriangleElements(noisy, face)
    found = roughness(elements, (noisy / elements.spacing).float())
    assert float(found.noise) == pytest.approx(level, rel=0.15)
    clean = roughness(elements, (pos / elements.spacing).float())
    assert float(clean.noise) < 0.002 and float(clean.slivers) == 0


def test_the_signal_of_noise_is_whiter_than_that_of_waves(icosphere):
    pos, face = icosphere(4)
    found = []
    for kind in ("normal", "smooth"):
        noisy = add_noise(pos.double(), face, 0.2, kind, torch.Generator().manual_seed(0))
        elements = TriangleElements(noisy, face)
        found.append(float(roughness(elements, (noisy / elements.spacing).float()).correlation))
    assert found[0] == pytest.approx(-0.29, abs=0.03) and found[1] > -0.15


def test_noise_is_relative_to_local_edges(icosphere):
    """Two spheres, one ten times larger, each with noise of a tenth of its edges."""
    pos, face = icosphere(3)
    generator = torch.Generator().manual_seed(0)
    parts = [add_noise(pos.double() * scale, face, 0.1, "normal", generator) for scale in (1, 10)]
    both = torch.cat([parts[0], parts[1] + 20])
    elements = TriangleElements(both, torch.cat([face, face + len(pos)], 1))
    found = roughness(elements, (both / elements.spacing).float())
    torch.testing.assert_close(found.noise, torch.full((2,), 0.1), rtol=0.2, atol=0)


def table(noise, angle, slivers=0.0, wave=0.1, white=-0.25):
    values = (noise, noise / 2, white, angle, wave, slivers)
    return Roughness(*(torch.tensor([x]) for x in values))


def fraction(before, after, faces=500, correlation=0.1, is_open=False, rounded=0.0):
    rest = (torch.tensor([value]) for value in (faces, correlation, is_open, rounded))
    return float(trust(before, after, *rest))


@pytest.mark.parametrize(
    "before, after, faces, expected",
    [
        (table(0.2, 0.3), table(0.01, 0.05), 500, 1.0),  # much simpler: it was noise
        (table(0.03, 0.1), table(0.02, 0.09), 500, 0.0),  # as complicated as before: detail
        (table(0.2, 0.3), table(0.01, 0.05), 20, 0.0),  # too few faces to tell
        (table(0.2, 0.3), table(0.3, 0.05), 500, 0.0),  # angles fall, but the signal rises
        (table(0.2, 0.3), table(0.3, 0.0), 500, 1.0),  # unless it is flat
        (table(0.2, 0.3), table(0.03, 0.05, 0.1), 500, 0.0),  # slivers appear
        (table(0.1, 0.3), table(0.013, 0.25), 500, 1.0),  # coarse: angles stay, noise does not
        (table(0.04, 0.3), table(0.0052, 0.25), 500, 0.0),  # little noise: it may be detail
        (table(0.1, 0.3, white=-0.2), table(0.013, 0.12), 500, 0.0),  # nor is noise less white
        (table(0.1, 0.35), table(0.023, 0.28), 500, 0.75),  # in doubt: round, the signal falls
        (table(0.1, 0.35), table(0.023, 0.2), 500, 0.0),  # no more than angles do
        (table(0.1, 0.35, white=-0.18), table(0.023, 0.28), 500, 0.0),
    ],
)
def test_a_surface_is_trusted_if_it_is_much_simpler(before, after, faces, expected):
    assert fraction(before, after, faces) == expected


@pytest.mark.parametrize("rounded", [0.0, 1.0])
def test_coplanar_faces_have_no_noise_but_that_of_rounding(rounded):
    before, after = table(0.15, 0.0), table(0.005, 0.02)
    assert fraction(before, after, is_open=True, rounded=rounded) == rounded


def test_correlated_displacements_need_a_simpler_surface():
    """Networks for scanners take fine detail for noise more easily."""
    before, after = table(0.04, 0.1), table(0.008, 0.055)
    assert fraction(before, after) == pytest.approx(1.0)
    assert 0 < fraction(before, after, correlation=0.5) < 0.2


@pytest.mark.parametrize(
    "correlation, angle, expected", [(0.9, 0.03, 1), (0.9, 0.09, 0), (0.5, 0.03, 0)]
)
def test_long_waves_are_trusted_if_the_surface_is_much_simpler(correlation, angle, expected):
    before, after = table(0.001, 0.1), table(0.001, angle)
    assert fraction(before, after, correlation=correlation) == expected


@pytest.mark.parametrize(
    "angle, wave, is_open, expected",
    [
        (0.052, 0.055, True, 1),
        (0.052, 0.055, False, 0),
        (0.052, 0.07, True, 0),
        (0.06, 0.05, True, 0),
    ],
)
def test_long_waves_of_open_parts_may_leave_half_of_the_angle(angle, wave, is_open, expected):
    """A round shape has angles of its own."""
    before, after = table(0.001, 0.1, wave=0.1), table(0.001, angle, wave=wave)
    assert fraction(before, after, correlation=0.9, is_open=is_open) == expected


def test_grouped_quantiles_are_those_of_each_group():
    value = torch.rand(100, generator=torch.Generator().manual_seed(0))
    group = torch.arange(100) % 3
    found = grouped_quantile(value, group, 4, 0.5)
    for index in range(3):
        inside = value[group == index].sort().values
        assert inside[16] <= found[index] <= inside[17]
    assert found[3] == 0 and grouped_quantile(value[:0], group[:0], 2, 0.5).tolist() == [0, 0]
