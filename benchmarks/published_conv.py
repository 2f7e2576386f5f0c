"""The bilateral convolution as the authors of the paper published it."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo import Lattice
from permutogeo.lattice import Incidence
from permutogeo.nn import BilateralConv


class PublishedConv(BilateralConv):
    """The bilateral layer by the defaults of the authors' code (MPI-IS/bilateralNN).

    All filters learn the difference from the Gaussian, outputs are normalized by the density of
    the outputs instead of that of the inputs, and there is no bias.

    Args:
        like: The layer whose channels, dimension and radius it has.
    """

    def __init__(self, like: BilateralConv):
        channels = like.in_channels, like.out_channels
        super().__init__(*channels, like.dim, like.radius, bias=False, normalize="symmetric")

    def reset_parameters(self) -> None:
        """Sets the filters to the Gaussian."""
        torch.nn.init.zeros_(self.filter_weight)  # type: ignore[arg-type]

    def effective_filter(self) -> Tensor:
        """Return the sum of the parameters and the Gaussian."""
        assert self.filter_weight is not None
        return self.filter_weight + self.gaussian(self.filter_weight).view(-1, 1, 1)

    def normalization_factors(
        self, lattice: Lattice, at: Incidence | None, dtype: torch.dtype
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the factors on the input ``[N, 1]`` and the output ``[N', 1]``."""
        before, after = super().normalization_factors(lattice, at, dtype)
        if at is None:
            return before, after
        ones = lattice.splat(torch.ones(at.num_points, 1, dtype=dtype), at)
        density = lattice.convolve(ones, self.gaussian(ones), self.radius, shared=True)
        return before, lattice.slice(density, at).rsqrt()
