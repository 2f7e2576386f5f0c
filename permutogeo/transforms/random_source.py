"""Source of random numbers of the transforms."""

from __future__ import annotations

import torch


class RandomSource:
    """Choice between torch's global generator, a fixed seed and a given generator.

    Args:
        owner: Class name that the error message names.
        seed: If given, each call returns a new generator with this seed.
        generator: If given, each call returns it.
    """

    def __init__(self, owner: str, seed: int | None, generator: torch.Generator | None) -> None:
        if seed is not None and generator is not None:
            raise ValueError(f"{owner}: Expected 'seed' or 'generator' (got both)")
        self.seed = seed
        self.generator = generator

    def __call__(self) -> torch.Generator | None:
        if self.seed is None:
            return self.generator
        return torch.Generator().manual_seed(self.seed)
