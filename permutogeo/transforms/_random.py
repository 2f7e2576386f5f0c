"""Where a transform takes its random numbers from."""

from __future__ import annotations

import torch


class RandomSource:
    """The global generator, a fixed ``seed`` (the same numbers at each call), or a generator."""

    def __init__(self, owner: str, seed: int | None, generator: torch.Generator | None) -> None:
        if seed is not None and generator is not None:
            raise ValueError(f"{owner}: Expected 'seed' or 'generator' (got both)")
        self.seed = seed
        self.generator = generator

    def __call__(self) -> torch.Generator | None:
        if self.seed is None:
            return self.generator
        return torch.Generator().manual_seed(self.seed)
