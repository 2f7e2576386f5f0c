"""Batch normalization of values at lattice vertices."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import inits

from permutogeo.checks import fail
from permutogeo.distributed.ranks import Ranks, sum_over_ranks
from permutogeo.lattice import Lattice
from permutogeo.nn.layer import LazyLayer
from permutogeo.ops import batch_norm, normalize, statistics

_DISTRIBUTED = dist.is_available()
# Of the statistics of a batch in the running ones.
_Factors = tuple[Tensor, Tensor]


class LatticeNorm(LazyLayer):
    r"""Batch normalization over the vertices of a lattice, after the `"Batch Normalization:
    Accelerating Deep Network Training by Reducing Internal Covariate Shift"
    <https://arxiv.org/abs/1502.03167>`_ paper, each vertex weighted by the mass of its points.

    .. math::
        \mathbf{v}^{\prime}_i = \frac{\mathbf{v}_i - \textrm{E}[\mathbf{v}]}
        {\sqrt{\textrm{Var}[\mathbf{v}] + \epsilon}} \odot \gamma + \beta, \quad
        \textrm{E}[\mathbf{v}] = \frac{\sum_i m_i \mathbf{v}_i}{\sum_i m_i}

    where the masses :math:`m` are the splat of ones at the points and sum to the number of points.
    Under :mod:`torch.distributed` the sums run over all ranks while training, and ranks may hold
    different numbers of points. Statistics of a sharded lattice run over its ranks in any case.

    With message passing, each vertex sends its value, weighted by its mass, to one node that stands
    for the batch. With running statistics no messages are sent. An explainer's edge mask does not
    apply to the statistics.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        dim: Feature dimension :math:`d` of the lattice.
        eps: Added to the variance.
        momentum: Weight of the batch in the running statistics; ``None`` for a cumulative average.
        affine: If ``False``, :math:`\gamma` and :math:`\beta` are not learned.
        track_running_stats: If ``False``, the statistics of the batch are always used.
        process_group: The ranks to share statistics with; ``None`` for all.

    Shapes:
        - values: :math:`(M, C)`
        - output: :math:`(M, C)`

    Example:

        >>> lattice = Lattice.build(torch.rand(100, 3) * 4)
        >>> values = lattice.splat(torch.rand(100, 8))
        >>> LatticeNorm(8, dim=3)(values, lattice).shape == values.shape
        True
    """

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        in_channels: int,
        dim: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
    ):
        super().__init__(in_channels, dim)
        for name, value in (("eps", eps), ("momentum", 0.0 if momentum is None else momentum)):
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                fail(self, f"Expected '{name}' between 0 and 1 (got {value!r})")
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.process_group = process_group
        for name in ("weight", "bias"):
            self.register_parameter(name, self._sized_parameter(in_channels) if affine else None)
        for name in ("running_mean", "running_var"):
            tracked = self._sized_buffer(in_channels) if track_running_stats else None
            self.register_buffer(name, tracked)
        counted = torch.tensor(0) if track_running_stats else None
        self.register_buffer("num_batches_tracked", counted)
        self.reset_parameters()

    def _shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        names = ["weight", "bias"] if self.affine else []
        names += ["running_mean", "running_var"] if self.track_running_stats else []
        return dict.fromkeys(names, (channels,))

    def _channels_of(self, saved: Tensor) -> int:
        return len(saved)

    def reset_running_stats(self) -> None:
        """Resets the running statistics."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Resets the running statistics and all learnable parameters."""
        super().reset_parameters()
        self.reset_running_stats()
        if self.in_channels != -1:
            inits.ones(self.weight)
            inits.zeros(self.bias)

    _reset_sized = reset_parameters

    def forward(self, values: Tensor, lattice: Lattice, relu: bool = False) -> Tensor:
        """Normalize values at vertices.

        Args:
            values: Values at the vertices of ``lattice``.
            lattice: The lattice, whose points give the mass of each vertex.
            relu: Whether to apply a ReLU to the result, in the same pass over it.
        """
        wide = self.receive(values, lattice)
        if self.training or self.running_mean is None or self.running_var is None:
            out, mean, var, factors = self._normalize(wide, lattice, relu)
            if self.training and self.track_running_stats:
                self._track(mean.detach(), var.detach(), *factors)
        else:
            mean, var = self.running_mean, self.running_var
            out = normalize(wide, mean, var, self.weight, self.bias, self.eps, relu)
        return out if out.dtype == values.dtype else out.to(values.dtype)

    def _normalize(
        self, values: Tensor, lattice: Lattice, relu: bool
    ) -> tuple[Tensor, Tensor, Tensor, _Factors]:
        """Return the normalized values, mean and variance ``[C]`` of the batch, and the factors of
        these in the running statistics."""
        dtype = values.dtype
        mass, count, factors = lattice.cached_constant(
            ("mass and total", dtype), lambda: _mass_and_total(lattice, dtype)
        )
        weight, bias, shared = self.weight, self.bias, self._is_shared(lattice)
        if self.fused and not shared and weight is not None and bias is not None:
            return *batch_norm(values, mass, count, weight, bias, self.eps, relu), factors
        if self.fused and not shared:
            mean, var = statistics(values, mass, count)
        else:
            mean, var, count = self._statistics(values, lattice, mass, count)
            factors = _factors(count)
        return normalize(values, mean, var, weight, bias, self.eps, relu), mean, var, factors

    def _statistics(
        self, values: Tensor, lattice: Lattice, mass: Tensor, count: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and variance ``[C]`` and the number of points of the batch, over all ranks or
        by message passing."""
        total, shared = self._sum(values, mass), self._is_shared(lattice)
        if shared:
            sums = self._total(torch.cat([count.view(1), total]), lattice)
            count, total = sums[0], sums[1:]
        divisor = torch.where(count > 0, count, 1.0)
        mean = total / divisor
        # About the mean of all ranks: the difference of squares would cancel.
        squares = self._sum((values - mean).square(), mass)
        if shared:
            squares = self._total(squares, lattice)
        return mean, squares / divisor, count

    def _sum(self, values: Tensor, mass: Tensor) -> Tensor:
        """Return the sum over the vertices of this rank, weighted by mass, ``[C]``."""
        if self.fused:
            return (mass * values).sum(0)
        vertex = torch.arange(len(values), device=values.device)
        edge_index = torch.stack([vertex, torch.zeros_like(vertex)])
        return self.pass_messages(edge_index, (len(values), 1), values, mass[:, 0])[0]

    def _is_shared(self, lattice: Lattice) -> bool:
        """Return whether the statistics run over several ranks."""
        return lattice.sharded or (self.training and _several_ranks(self.process_group))

    def _total(self, sums: Tensor, lattice: Lattice) -> Tensor:
        if self.training and _several_ranks(self.process_group):
            return sum_over_ranks(sums, Ranks(self.process_group))
        return lattice.incidence.total(sums)

    def _track(self, mean: Tensor, var: Tensor, present: Tensor, correction: Tensor) -> None:
        tracked = self.running_mean, self.running_var, self.num_batches_tracked
        running_mean, running_var, batches = tracked
        assert running_mean is not None and running_var is not None and batches is not None
        batches.add_(1)
        share = present * (1.0 / batches if self.momentum is None else self.momentum)
        unbiased, dtype = var * correction, running_mean.dtype
        if dtype != mean.dtype:
            mean, unbiased, share = mean.to(dtype), unbiased.to(dtype), share.to(dtype)
        running_mean.lerp_(mean, share)
        running_var.lerp_(unbiased, share)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, dim={self.dim}, eps={self.eps}, "
            f"momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats})"
        )


def _mass_and_total(lattice: Lattice, dtype: torch.dtype) -> tuple[Tensor, Tensor, _Factors]:
    """Return the mass of each vertex ``[M, 1]``, their sum ``[]``, and :func:`_factors`."""
    mass = lattice.mass(dtype)
    count = mass.sum(0)[0]
    return mass, count, _factors(count)


def _factors(count: Tensor) -> _Factors:
    """Return whether a batch has points, as 0 or 1, and the factor of its unbiased variance."""
    count = count.detach()
    return (count > 0).to(count.dtype), count / (count - 1).clamp(min=1.0)


def _several_ranks(group: Any = None) -> bool:
    """Whether the process group has more than one rank."""
    return _DISTRIBUTED and dist.is_initialized() and dist.get_world_size(group) > 1
