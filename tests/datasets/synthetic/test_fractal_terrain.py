import pytest
import torch

from permutogeo.data.geometry import face_geometry
from permutogeo.datasets.synthetic.fractal_terrain import (
    FORMS,
    LAYOUTS,
    fractal_planet,
    fractal_terrain,
)


def slope(mesh, up):
    normal = face_geometry(mesh.pos.double(), mesh.face)[0]
    return float(torch.acos((normal * up).sum(dim=1).clamp(-1, 1)).rad2deg().mean())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", FORMS)
def test_terrain_has_the_faces_and_the_slope_that_are_asked_for(layout, form):
    mesh = fractal_terrain(1000, 0.7, 25.0, layout=layout, form=form)
    assert mesh.face.size(1) == pytest.approx(1000, rel=0.1)
    assert slope(mesh, torch.tensor([0.0, 0.0, 1.0]).double()) == pytest.approx(25.0, abs=0.01)
    assert mesh.face.unique().numel() == len(mesh.pos)


@pytest.mark.parametrize("exponent", [0.4, 0.9])
def test_height_differences_grow_with_the_power_of_the_distance(exponent):
    height = fractal_terrain(40_000, exponent).pos[:, 2].double()
    height = height.view(int(len(height) ** 0.5), -1)
    size = [(height[k:] - height[:-k]).square().mean().sqrt().log2() for k in (2, 8)]
    assert float(size[1] - size[0]) / 2 == pytest.approx(exponent, abs=0.15)


def test_a_finest_length_removes_shorter_waves():
    def roughness(finest):
        mesh = fractal_terrain(2000, 0.5, 20.0, finest=finest)
        height = mesh.pos[:, 2].view(int(len(mesh.pos) ** 0.5), -1)
        return float(height.diff(n=2, dim=0).square().mean())

    assert roughness(8.0) < 0.15 * roughness(0.0)


def test_a_planet_is_closed_and_has_relief():
    mesh = fractal_planet(3, 0.6, 15.0)
    assert mesh.face.size(1) == 1280
    ball = fractal_planet(3, 0.6, 1e-3)
    normal = face_geometry(ball.pos.double(), ball.face)[0]
    assert slope(mesh, normal) == pytest.approx(15.0, abs=0.1)


def test_seeds_and_names():
    assert not torch.equal(fractal_terrain(100).pos, fractal_terrain(100, seed=1).pos)
    with pytest.raises(ValueError, match="'layout'"):
        fractal_terrain(100, layout="spiral")
