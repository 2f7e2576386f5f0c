import random

import numpy as np
import torch

from permutogeo.train import Trainer
from permutogeo.train.rng import derive_seed, get_rng_state, seed_all, set_rng_state


def test_the_random_numbers_of_the_caller_stay(loader, make_model):
    trainer = Trainer(make_model(), epochs=1)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    trainer.fit(loader)
    assert torch.equal(torch.rand(2), expected)


def draw():
    """Numbers of all three generators; the Gaussian ones cache every second value."""
    return (
        torch.rand(2).tolist(),
        np.random.rand(2).tolist(),
        [np.random.randn(), random.random(), random.gauss(0, 1)],
    )


def test_states_come_back():
    seed_all(1, 2)
    draw()
    state = get_rng_state()
    expected = draw()
    assert draw() != expected
    set_rng_state(state)
    assert draw() == expected


def test_every_number_of_a_key_counts():
    keys = [(0,), (1,), (0, 1), (1, 1), (0, 0, 1), (2**40, 3)]  # trailing zeros do not count
    seeds = {derive_seed(*key) for key in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)
