"""Global random number generators (torch, NumPy, Python): seeding, saving and restoring."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

_PYTHON_WORDS = 625
_NUMPY_WORDS = 624


def derive_seed(*key: int) -> int:
    """Return a seed that depends on all numbers of the key."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def seed_all(*key: int) -> None:
    """Seed torch, NumPy and Python with :func:`derive_seed` of the key."""
    seed = derive_seed(*key)
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def get_rng_state() -> Tensor:
    """Return the states of all global generators as a tensor of bytes."""
    _, words, gauss = random.getstate()
    _, numbers, position, has_gauss, cached = np.random.get_state(legacy=True)
    parts: list[np.ndarray] = [
        np.array(words, np.uint32),
        np.array(numbers, np.uint32),
        np.array([position, has_gauss], np.int64),
        np.array([np.nan if gauss is None else gauss, cached], np.float64),
        torch.get_rng_state().numpy(),
    ]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_rng_state().numpy())
    joined = b"".join(part.tobytes() for part in parts)
    return torch.from_numpy(np.frombuffer(joined, np.uint8).copy())


def set_rng_state(state: Tensor) -> None:
    """Restore the states that :func:`get_rng_state` returned."""
    content = state.cpu().contiguous().numpy().tobytes()

    def take(dtype: type, count: int) -> np.ndarray:
        nonlocal content
        size = np.dtype(dtype).itemsize * count
        head, content = content[:size], content[size:]
        return np.frombuffer(head, dtype)

    words, numbers = take(np.uint32, _PYTHON_WORDS), take(np.uint32, _NUMPY_WORDS)
    position, has_gauss = take(np.int64, 2).tolist()
    gauss, cached = take(np.float64, 2).tolist()
    random.setstate((3, tuple(words.tolist()), None if np.isnan(gauss) else gauss))
    np.random.set_state(("MT19937", numbers, position, has_gauss, cached))
    torch.set_rng_state(torch.from_numpy(take(np.uint8, torch.get_rng_state().numel()).copy()))
    if content and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(take(np.uint8, len(content)).copy()))


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore the global generators at the end of the block."""
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
