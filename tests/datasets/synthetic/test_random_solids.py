"""Random solids of all kinds."""

import numpy as np
import pytest

from permutogeo.datasets.synthetic.random_solids import KINDS, random_solid


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[kind.__name__ for kind in KINDS])
def test_solids_lie_within_reach(kind):
    axis = np.linspace(-2, 2, 41)
    points = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    for seed in range(3):
        solid = random_solid(kind, np.random.default_rng(seed))
        inside = solid(points)[0] < 0
        assert 0.001 < inside.mean() < 0.5
        assert np.abs(points[inside]).max() <= 1.8


def test_solids_depend_on_the_seed():
    points = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    first, again, other = (random_solid(3, np.random.default_rng(s))(points)[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
