"""From a coarse grid to a fine one: the block of each coarse value, and what nothing reaches.

Grids are ``[B, rows, columns, C]``. A coarse value is that of a block of ``factor`` x ``factor``
fine ones, so its features are their mean: ``(i + 1/2) factor - 1/2`` for their positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from permutogeo._points import Pair
from permutogeo.functional import gaussian_filter


def factor_of(coarse: Sequence[int], fine: Sequence[int]) -> int:
    """How many fine values a coarse one spans along each side; the last block may be cut off."""
    sizes = f"{fine[0]} x {fine[1]} over {coarse[0]} x {coarse[1]}"
    if min(*coarse, *fine) < 1:
        raise ValueError(f"Expected a guide and values of at least 1 x 1 (got {sizes})")
    factor = max(-(-whole // part) for part, whole in zip(coarse, fine, strict=True))
    if any(-(-whole // factor) != part for part, whole in zip(coarse, fine, strict=True)):
        fitting = " x ".join(str(-(-whole // factor)) for whole in fine)
        raise ValueError(
            f"Expected a guide that is larger by one whole factor along both sides (got {sizes}; "
            f"a factor of {factor} would need {fitting})"
        )
    return factor


def block_means(fine: Tensor, factor: int) -> Tensor:
    """The mean over each block, ``[B, ceil(rows / factor), ceil(columns / factor), C]``."""
    if factor == 1:
        return fine
    mean = functional.avg_pool2d(fine.movedim(-1, 1), factor, ceil_mode=True)
    return mean.movedim(1, -1)


def fill_unreached(
    out: Tensor, reached: Tensor, x: Tensor, feature: Pair, batch: Pair | None = None
) -> Tensor:
    """Values for the output points that no input point reaches within the filter.

    They are those of the Gaussian of twice the bandwidths, of four times where that does not reach
    either, and so on: the nearest inputs in position and guide decide.

    Args:
        out: Values at the output points, ``[N', C]``.
        reached: Which of them have one, ``[N']``.
        x: Values at the input points, ``[N, C]``; at least one for each graph.
        feature: Features of the input and of the output points, divided by the bandwidths.
        batch: Graph of each.
    """
    missing = (~reached).nonzero()[:, 0]
    with_ones = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    scale = 1.0
    while len(missing):
        scale /= 2
        features = (feature[0] * scale, feature[1][missing] * scale)
        graphs = None if batch is None else (batch[0], batch[1][missing])
        sums = gaussian_filter(with_ones, features, graphs, normalize=None)
        found = sums[:, -1] > 0
        mean = sums[found, :-1] / sums[found, -1:]
        out = out.index_put((missing[found],), mean.to(out.dtype))
        missing = missing[~found]
    return out
