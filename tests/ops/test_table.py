"""Hash tables of codes, also where all codes start at the same slot."""

import sys

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops
from permutogeo.ops.table import hash_capacity
from permutogeo.testing.reference import ReferenceLattice

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def top_bits(code, bits):
    """The first slot of codes ``[n, words]`` in a table of ``2 ** bits`` slots."""
    words = code.astype(np.uint64)
    with np.errstate(over="ignore"):
        h = words[:, 0]
        for word in words.T[1:]:
            h = (h * GOLDEN) ^ word
            h ^= h >> np.uint64(32)
        return (h * GOLDEN) >> np.uint64(64 - bits)


def colliding(words, bits, slot, count):
    """The first ``count`` codes that want ``slot``."""
    found = np.arange(400 * count << max(0, bits - 8), dtype=np.int64)
    found = np.stack([found % 7, found // 7][:words] if words > 1 else [found], 1)
    found = found[top_bits(found, bits) == slot][:count]
    assert len(found) == count
    return torch.from_numpy(found[np.lexsort(found.T[::-1])])


def test_find(case, dim):
    code = case(dim).lattice.code
    slots = ops.hash_codes(code)
    assert_close(ops.find(code, code, slots).long(), torch.arange(len(code)))
    present = set(map(tuple, code.tolist()))
    absent = [row for row in (code + 1).tolist() if tuple(row) not in present]
    assert (ops.find(torch.tensor(absent), code, slots) == -1).all()
    assert ops.find(code[:0], code, slots).shape == (0,)


@pytest.mark.parametrize("slot", [0, 100, 511])
@pytest.mark.parametrize("words", [1, 2])
def test_colliding_codes_are_found(words, slot):
    """With the last slot as their first, the search goes on at the beginning of the table."""
    both = colliding(words, bits=9, slot=slot, count=400)
    present = torch.zeros(400, dtype=torch.bool)
    present[torch.randperm(400)[:256]] = True
    code = both[present].contiguous()
    slots = ops.hash_codes(code)
    assert slots.shape == (512,)  # half full, in one run
    taken = (slots.roll(-slot) >= 0).nonzero()[:, 0]
    assert_close(taken, torch.arange(256))
    assert_close(ops.find(code, code, slots).long(), torch.arange(256))
    assert (ops.find(both[~present].contiguous(), code, slots) == -1).all()


@pytest.mark.usefixtures("hashed")
@pytest.mark.parametrize("path", ["_insert_on_threads", "_insert_atomically"])
def test_points_whose_corners_collide(monkeypatch, path):
    """In one dimension codes count the lattice points: every second corner wants one slot."""
    module = sys.modules["permutogeo.ops.build"]
    monkeypatch.setattr(module, "_insert_on_threads", getattr(module, path))
    code = colliding(1, bits=12, slot=5, count=300)[:, 0]
    # u = sqrt(2/3) * sqrt(2) * feature for the grid coordinate u.
    step = 1 / np.sqrt(4 / 3)
    # The lowest point stands three cells inside the box: one for rounding, two of padding.
    grid = torch.cat([torch.tensor([0]), code - 3])
    feature = ((grid + 0.25) * step).unsqueeze(1)
    lattice = Lattice.build(feature)
    assert set((lattice.code[:, 0]).tolist()) >= set(code.tolist())
    reference = ReferenceLattice(feature.numpy())
    assert lattice.num_vertices == reference.num_vertices
    x = torch.randn(len(feature), 2, dtype=torch.float64)
    blurred = reference.slice(reference.blur(reference.splat(x)))
    ours = lattice.slice(lattice.blur(lattice.splat(x)))
    np.testing.assert_allclose(ours, blurred, atol=1e-10)


def test_most_codes_of_a_table():
    """Slots are indexed by 32 bits, and half of them stay free."""
    assert hash_capacity(0) == 16 and hash_capacity(9) == 32 and hash_capacity(2**29) == 2**30
    with pytest.raises(ValueError, match=r"^Expected at most 536870912 vertices in one hash table"):
        hash_capacity(2**29 + 1)
