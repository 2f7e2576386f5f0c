import numpy as np
import pytest

from permutogeo.datasets.synthetic.textures import TEXTURES, fractal_noise


def test_noise_is_standardized():
    noise = fractal_noise((48, 64), np.random.default_rng(0))
    assert noise.shape == (48, 64)
    assert abs(noise.mean()) < 1e-9 and noise.std() == pytest.approx(1.0)


def test_noise_of_larger_scale_is_smoother():
    steps = [
        np.abs(np.diff(fractal_noise((64, 64), np.random.default_rng(0), finest, 1))).mean()
        for finest in (1.0, 4.0)
    ]
    assert steps[1] < steps[0] / 2


@pytest.mark.parametrize("name", TEXTURES)
def test_textures(name):
    """Reliefs are finite and small, follow their seed, and are not constant."""
    draw = TEXTURES[name]
    relief = draw((40, 56), np.random.default_rng(3))
    assert relief.shape == (40, 56) and np.isfinite(relief).all()
    assert 0.0 < relief.std() < 0.5 and np.abs(relief).max() < 1.5
    assert np.array_equal(relief, draw((40, 56), np.random.default_rng(3)))
    assert not np.array_equal(relief, draw((40, 56), np.random.default_rng(4)))


def test_textures_differ_in_their_spectra():
    """Fabric is finer than marble, and paint is smoother than stone."""

    def roughness(name):
        relief = TEXTURES[name]((64, 64), np.random.default_rng(0))
        return np.square(np.diff(relief)).mean() / relief.var(), relief.std()

    assert roughness("fabric")[0] > 2 * roughness("marble")[0]
    assert roughness("paint")[1] < roughness("stone")[1] / 5
