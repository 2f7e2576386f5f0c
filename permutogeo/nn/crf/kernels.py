"""Pairwise kernels of a dense CRF: Gaussian, or a learned filter on the lattice."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo.checks import check_integer, fail, prefix_errors
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.diagonal import blur_diagonal, convolve_diagonal
from permutogeo.lattice.normalization import (
    Factors,
    normalizers,
    response_key,
    response_to_ones,
)
from permutogeo.lattice.points import resolve_lattice
from permutogeo.nn.bandwidth import Bandwidth
from permutogeo.nn.crf.compatibility import expand_scalar
from permutogeo.ops import stencils
from permutogeo.ops.mean_field import Blur, Corners
from permutogeo.runtime import memory

_multiply = partial(memory.apply, torch.mul)


@dataclass(frozen=True, eq=False)
class FusedKernel:
    """A pairwise kernel for fused mean field.

    Args:
        corners: The corners of the points, and the kernel on the lattice.
        factor: The factor on the kernel, if it is a blur.
        keep: Called with the response to ones, to keep it for other calls.
    """

    corners: Corners
    factor: float
    keep: Callable[[Tensor], None]


@dataclass(frozen=True, eq=False)
class PairwiseOperator:
    r"""A pairwise kernel over given points, :math:`q \mapsto w K q`.

    Args:
        points: The incidence of the points.
        normalized: Returns the incidence with weights times the normalization before the kernel,
            and after it.
        filter: The kernel on values at vertices.
        fused: Returns the kernel for fused mean field.
        self_term: The diagonal of the kernel, ``[N, 1]``, to subtract.
    """

    points: Incidence
    normalized: Callable[[], tuple[Incidence, Incidence]]
    filter: Callable[[Tensor], Tensor]
    fused: Callable[[], FusedKernel]
    self_term: Tensor | None = None
    _known: list[tuple[Incidence, Incidence]] = field(default_factory=list, init=False)

    @property
    def _ends(self) -> tuple[Incidence, Incidence]:
        if not self._known:  # torch.compile does not trace cached_property
            self._known.append(self.normalized())
        return self._known[0]

    def prepare(self) -> None:
        """Compute the normalization, which otherwise the first call does."""
        self._ends  # noqa: B018

    def __call__(
        self, q: Tensor, mix: Callable[[Tensor], Tensor] = lambda message: message
    ) -> Tensor:
        """Return the message ``[N, L]`` to each point.

        Args:
            mix: The label compatibility, ``[n, L] -> [n, L]``. It commutes with the kernel and is
                applied at the vertices, which are fewer than the points.
        """
        source, target = self._ends
        out = target.slice(mix(self.filter(source.splat(q))))
        return out if self.self_term is None else out - self.self_term * mix(q)


class CRFKernel(Module, ABC):
    """Base class of the kernels: bandwidths, weight and normalization."""

    weight: Parameter | None

    def __init__(
        self,
        dim: int,
        sigma: float | Sequence[float],
        weight: float,
        learn_sigma: bool,
        learn_weight: bool,
    ):
        super().__init__()
        check_integer(self, "dim", dim)
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            fail(self, f"Expected 'weight' to be a number (got {weight!r})", TypeError)
        if not math.isfinite(weight):
            fail(self, f"Expected a finite 'weight' (got {weight})")
        self.dim = dim
        self.bandwidth = Bandwidth(self, dim, sigma, learn_sigma)
        self.initial_weight = float(weight)
        # Of shape [1], since FSDP2 does not shard scalars.
        self.register_parameter("weight", Parameter(torch.empty(1)) if learn_weight else None)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        self.bandwidth.reset_parameters()
        if self.weight is not None:
            torch.nn.init.constant_(self.weight, self.initial_weight)

    def build_lattice(
        self, feature: Tensor, batch: Tensor | None = None, lattice: Lattice | None = None
    ) -> Lattice:
        """Return the lattice over ``feature / sigma``, or the given lattice after checks."""
        if lattice is not None and self.bandwidth.learned:
            fail(
                self,
                "Expected no lattice with learn_sigma=True, since sigma moves the points "
                f"(got {lattice})",
            )
        # A kernel may relate all points alike, or only equal ones: the CRF has its unaries too.
        return resolve_lattice(
            feature, batch, lattice, layer=self, scale=self.bandwidth, warn=False
        )[0]

    def operator(
        self,
        lattice: Lattice,
        normalize: str | None = "symmetric",
        exclude_self: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> PairwiseOperator:
        """Return the kernel over the points of ``lattice``, for values of type ``dtype``.

        The normalization is multiplied into the corner weights, which saves a pass over the points
        in each step.
        """

        def gaussian(values: Tensor) -> Tensor:
            return self._gaussian(lattice, values)

        known: list[Factors] = []  # torch.compile does not trace functools.cache

        def factors() -> Factors:
            if not known:
                key = self._cache_key
                known.append(normalizers(normalize, lattice, None, dtype, key, gaussian))
            return known[0]

        def scaled(factor: Tensor | None) -> Incidence:
            if factor is None:
                return lattice.incidence
            key = ("scaled", normalize, self._cache_key, dtype)
            weight = lattice.cached_constant(
                key, lambda: _multiply(lattice.weight.to(dtype), factor)
            )
            return lattice.incidence.with_weight(weight)

        def normalized() -> tuple[Incidence, Incidence]:
            before, after = factors()
            return scaled(before), scaled(after)

        self_term = None
        if exclude_self:
            self_term = self._scale(self._diagonal(lattice).to(dtype)).unsqueeze(1)
            for factor in factors():
                self_term = self_term if factor is None else self_term * factor
        operator = PairwiseOperator(
            lattice.incidence,
            normalized,
            lambda values: self._scale(self._filter(lattice, values)),
            lambda: self._fuse(normalize, lattice, gaussian),
            self_term,
        )
        if torch.is_grad_enabled():  # the normalization belongs to this graph of autograd
            operator.prepare()
        return operator

    def _fuse(
        self, normalize: str | None, lattice: Lattice, gaussian: Callable[[Tensor], Tensor]
    ) -> FusedKernel:
        """Return the kernel for fused mean field on the CPU."""
        key = response_key(self._cache_key, torch.float32)
        blur, response = self._blur(lattice), lattice.known(key)
        if normalize is not None and response is None and blur is None:
            response = response_to_ones(lattice, torch.float32, self._cache_key, gaussian)

        def keep(response: Tensor) -> None:
            lattice.cached_constant(key, lambda: response.unsqueeze(1))

        points = lattice.vertex, lattice.weight, lattice.num_vertices
        factor = self.initial_weight if self.weight is None else float(self.weight)
        return FusedKernel(Corners(*points, normalize, blur, response), factor, keep)

    def _scale(self, values: Tensor) -> Tensor:
        if self.weight is not None:
            return _multiply(values, self.weight.to(values.dtype))
        if self.initial_weight == 1:
            return values
        return _multiply(values, values.new_full((), self.initial_weight))

    def _blur(self, lattice: Lattice) -> Blur | None:
        """Return the kernel without its factor as a blur on the CPU, if it is one."""
        return None

    def extra_repr(self) -> str:
        return f"dim={self.dim}, weight={self.initial_weight:g}"

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        expand_scalar(state_dict, f"{prefix}weight")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @property
    @abstractmethod
    def _cache_key(self) -> Hashable:
        """The key of the response of its Gaussian to ones, in the cache of a lattice."""

    @abstractmethod
    def _filter(self, lattice: Lattice, values: Tensor) -> Tensor:
        """Apply the kernel to values at vertices."""

    @abstractmethod
    def _gaussian(self, lattice: Lattice, values: Tensor) -> Tensor:
        """Apply the Gaussian on the same stencil, which the normalization is computed from."""

    @abstractmethod
    def _diagonal(self, lattice: Lattice) -> Tensor:
        """Return the diagonal of the kernel, ``[N]``."""


class GaussianKernel(CRFKernel):
    r"""The Gaussian kernel of :class:`DenseCRF`, computed by the separable blur of the lattice.

    .. math::
        k(\mathbf{f}_i, \mathbf{f}_j) = w \exp \left( - \frac{1}{2} \sum_k
        \frac{(f_{ik} - f_{jk})^2}{\sigma_k^2} \right)

    Args:
        dim: Feature dimension :math:`d`.
        sigma: Bandwidth, one for all features or one for each.
        weight: The factor :math:`w`.
        learn_sigma: If ``True``, the logarithms of the bandwidths are learned.
        learn_weight: If ``True``, the factor is learned.

    Example:

        >>> kernel = GaussianKernel(dim=5, sigma=[80, 80, 13, 13, 13], weight=10)
        >>> kernel.build_lattice(torch.rand(100, 5) * 255).num_points
        100
    """

    def __init__(
        self,
        dim: int,
        sigma: float | Sequence[float] = 1.0,
        weight: float = 1.0,
        learn_sigma: bool = False,
        learn_weight: bool = False,
    ):
        super().__init__(dim, sigma, weight, learn_sigma, learn_weight)
        self.reset_parameters()

    @property
    def _cache_key(self) -> Hashable:
        return "blur"

    def _filter(self, lattice: Lattice, values: Tensor) -> Tensor:
        return lattice.blur(values)

    _gaussian = _filter

    def _blur(self, lattice: Lattice) -> Blur | None:
        def make() -> Blur | None:
            neighbors = lattice.neighbors(len(lattice.taps) // 2, stencil="axis")
            return Blur.on(neighbors, lattice.dim, lattice.taps)

        return lattice.cached("mean field blur", make)

    def _diagonal(self, lattice: Lattice) -> Tensor:
        return lattice.cached_constant("blur diagonal", lambda: blur_diagonal(lattice))


class LearnedKernel(CRFKernel):
    r"""A learned filter on the lattice as the kernel of :class:`DenseCRF`, from section 4 of the
    `"Learning Sparse High Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    All labels share one scalar for each tap, initially the Gaussian. The kernel is normalized by
    the response of the Gaussian on the same stencil, which stays positive.

    Args:
        dim: Feature dimension :math:`d`.
        radius: Stencil radius.
        sigma: Bandwidth, one for all features or one for each.
        weight: Factor on the filter.
        learn_sigma: If ``True``, the logarithms of the bandwidths are learned.
        learn_weight: If ``True``, the factor is learned.
        learn_filter: If ``False``, the filter stays the Gaussian on this stencil, the baseline of a
            learned filter.

    Shapes:
        - filter_weight: :math:`(K)`, in the order of :func:`permutogeo.stencil`

    Example:

        >>> LearnedKernel(dim=5, radius=2).filter_weight.shape
        torch.Size([665])
    """

    filter_weight: Tensor

    def __init__(
        self,
        dim: int,
        radius: int = 1,
        sigma: float | Sequence[float] = 1.0,
        weight: float = 1.0,
        learn_sigma: bool = False,
        learn_weight: bool = False,
        learn_filter: bool = True,
    ):
        super().__init__(dim, sigma, weight, learn_sigma, learn_weight)
        check_integer(self, "radius", radius, 0)
        self.radius = radius
        # No buffer: .half() would round it.
        self._stencil = prefix_errors(self, stencils.gaussian, dim, radius)
        start = torch.empty(len(self._stencil))
        if learn_filter:
            self.filter_weight = Parameter(start)
        else:
            self.register_buffer("filter_weight", start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        with torch.no_grad():
            self.filter_weight.copy_(self._stencil)

    @property
    def _cache_key(self) -> Hashable:
        return ("stencil", self.radius)

    def _filter(self, lattice: Lattice, values: Tensor) -> Tensor:
        return lattice.convolve(values, self.filter_weight, self.radius, shared=True)

    def _gaussian(self, lattice: Lattice, values: Tensor) -> Tensor:
        gaussian = self._stencil.to(values.device, values.dtype)
        return lattice.convolve(values, gaussian, self.radius, shared=True)

    def _diagonal(self, lattice: Lattice) -> Tensor:
        return convolve_diagonal(lattice, self.filter_weight, self.radius)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, radius={self.radius}, weight={self.initial_weight:g}"
