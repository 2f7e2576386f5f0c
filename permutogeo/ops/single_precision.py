"""Points of which the single-precision elevation of pydensecrf finds the same simplices."""

from __future__ import annotations

import numpy as np
import torch

from permutogeo.kernels import single_precision as kernels
from permutogeo.runtime import bridge, memory

_CPU = torch.device("cpu")
# Offset along each axis: above the rounding of float64, below that of float32.
_OFFSET = 2.0**-32
_FEWEST_POINTS = 8192


def replicate_rounding(feature: np.ndarray) -> torch.Tensor:
    """Return points ``[N, d]`` float64 that lie in the simplices that pydensecrf finds for features
    ``[d, N]`` float32.

    Example:

        >>> feature = np.array([[0, 1, 2], [0, 3, 3]], np.float32)
        >>> bool(np.abs(replicate_rounding(feature).numpy() - feature.T).max() < 1e-6)
        True
    """
    dim, count = feature.shape
    out = memory.empty(count, dim, dtype=torch.float64, device=_CPU)
    run = bridge.load_kernels(kernels.make, dim, device=_CPU)
    index = np.arange(1, dim + 1)
    width = float(np.float32(np.sqrt(2.0 / 3.0) * (dim + 1)))
    scale = (1.0 / np.sqrt(index * (index + 1)) * width).astype(np.float32)
    inverse = np.sqrt(1.5 / (index * (index + 1.0))) / (dim + 1)
    bridge.launch(
        run.replicate,
        count,
        *(run.Scale(*scale.tolist()), run.Real(*inverse.tolist()), _OFFSET),
        torch.from_numpy(np.ascontiguousarray(feature)),
        out,
        device=_CPU,
        grain=_FEWEST_POINTS,
    )
    return out
