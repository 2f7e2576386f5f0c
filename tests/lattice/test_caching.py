"""Caches of derived tensors."""

import copy
import pickle

import pytest
import torch

from permutogeo import Lattice
from permutogeo.lattice.caching import cached


def test_computed_once():
    made, cache = [], {}
    for _ in range(3):
        assert cached(cache, "name", lambda: made.append(1) or len(made)) == 1
    assert made == [1]


def test_computed_outside_of_inference_mode():
    with torch.inference_mode():
        assert not cached({}, "name", lambda: torch.ones(2) * 2).is_inference()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_constants_are_not_cached_while_gradients_are_recorded(requires_grad):
    feature = torch.rand(5, 2, requires_grad=requires_grad)
    lattice = Lattice.build(feature)
    assert lattice.caches_constants != requires_grad
    first, second = (lattice.cached_constant("name", lambda: feature * 2) for _ in range(2))
    assert (first is second) != requires_grad
    with torch.no_grad():
        first, second = (lattice.cached_constant("other", lambda: feature * 2) for _ in range(2))
        assert first is second and not first.requires_grad


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_forget_the_versions_of_their_sources(duplicate):
    lattice = Lattice.build(torch.rand(5, 2))
    duplicate(lattice).coarsen()
