"""The capsules of a random body."""

import numpy as np

from permutogeo.datasets.synthetic.body_capsules import Frame, random_capsules


def test_frames_are_chained():
    """A child that is turned by 90 degrees about z has its own y along -x."""
    frame = Frame(np.array([1.0, 2, 3]), np.eye(3)).child((0, 1, 0), "z", 90)
    np.testing.assert_allclose(frame.at(0, 0, 0), [1, 3, 3])
    np.testing.assert_allclose(frame.at(0, 2, 0), [-1, 3, 3], atol=1e-12)
    start, end, radius = frame.capsule((0, 0, 0), (0, 2, 0), 0.5)
    np.testing.assert_allclose(end - start, [-2, 0, 0], atol=1e-12)
    assert radius == (0.5, 0.5)


def test_bodies_have_human_proportions():
    for seed in range(10):
        start, end, radius = random_capsules(np.random.default_rng(seed))
        assert start.shape == end.shape == (len(radius), 3) and radius.min() > 0.005
        points = np.concatenate([start, end])
        assert 1.2 < np.ptp(points[:, 1]) < 2.2
        assert radius.max() < 0.2
