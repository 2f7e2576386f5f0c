"""Pairwise kernels of a dense CRF: Gaussian, or a free filter on the lattice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo import _warp, stencils
from permutogeo.diagonal import blur_diagonal, convolve_diagonal
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._bandwidth import Bandwidth
from permutogeo.nn._check import check_count, fail, named
from permutogeo.nn._normalizer import constant, normalizers
from permutogeo.nn._points import lay_lattice

_scaled = partial(_warp.apply, torch.mul)


@dataclass(frozen=True, eq=False)
class PairwiseOperator:
    r"""A kernel laid over the points of one call, :math:`q \mapsto w K q`.

    Args:
        source: The points, with weights that hold the normalizer before the kernel.
        target: The points, with weights that hold the one after it.
        filter: From values at vertices to values at vertices.
        self_term: The diagonal of the kernel, ``[N, 1]``, if it is to be left out.
    """

    source: Incidence
    target: Incidence
    filter: Callable[[Tensor], Tensor]
    self_term: Tensor | None = None

    def __call__(
        self, q: Tensor, mix: Callable[[Tensor], Tensor] = lambda message: message
    ) -> Tensor:
        """Messages ``[N, L]`` to each point.

        Args:
            mix: What the labels do to each other, ``[n, L] -> [n, L]``. It commutes with the
                kernel, and vertices are fewer than points.
        """
        out = self.target.slice(mix(self.filter(self.source.splat(q))))
        return out if self.self_term is None else out - self.self_term * mix(q)


class CRFKernel(Module, ABC):
    """Base of the kernels: what they share is bandwidths, weight and normalization."""

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
        check_count(self, "dim", dim)
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            fail(self, f"Expected 'weight' to be a number (got {weight!r})", TypeError)
        self.dim = dim
        self.bandwidth = Bandwidth(self, dim, sigma, learn_sigma)
        self.initial_weight = float(weight)
        self.register_parameter("weight", Parameter(torch.empty(())) if learn_weight else None)

    def reset_parameters(self) -> None:
        self.bandwidth.reset_parameters()
        if self.weight is not None:
            torch.nn.init.constant_(self.weight, self.initial_weight)

    def lay(
        self, feature: Tensor, batch: Tensor | None = None, lattice: Lattice | None = None
    ) -> Lattice:
        """The lattice over ``feature / sigma``, or the given one, checked against it."""
        if lattice is not None and self.bandwidth.learned:
            fail(
                self,
                "Expected no lattice with learn_sigma=True, since sigma moves the points "
                f"(got {lattice})",
            )
        return lay_lattice(self, feature, batch, lattice, self.bandwidth)[0]

    def operator(
        self,
        lattice: Lattice,
        normalize: str | None = "symmetric",
        exclude_self: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> PairwiseOperator:
        """The kernel on the points of ``lattice``, for values of type ``dtype``.

        Normalizers are multiplied into the weights of the corners once, so that a step makes no
        pass over the points for them.
        """

        def gaussian(values: Tensor) -> Tensor:
            return self._gaussian(lattice, values)

        factors = normalizers(normalize, lattice, None, dtype, self._name, gaussian)

        def scaled(factor: Tensor | None) -> Incidence:
            if factor is None:
                return lattice.incidence
            name = ("scaled", normalize, self._name, dtype)
            weight = constant(lattice, name, lambda: _scaled(lattice.weight.to(dtype), factor))
            return lattice.incidence.with_weight(weight)

        self_term = None
        if exclude_self:
            self_term = self._scale(self._diagonal(lattice).to(dtype)).unsqueeze(1)
            for factor in factors:
                self_term = self_term if factor is None else self_term * factor
        before, after = (scaled(factor) for factor in factors)
        return PairwiseOperator(
            before, after, lambda values: self._scale(self._filter(lattice, values)), self_term
        )

    def _scale(self, values: Tensor) -> Tensor:
        if self.weight is not None:
            return _scaled(values, self.weight)
        if self.initial_weight == 1:
            return values
        return _scaled(values, values.new_tensor(self.initial_weight))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, weight={self.initial_weight:g}"

    @property
    @abstractmethod
    def _name(self) -> Hashable:
        """What tells its Gaussian from others on the same lattice."""

    @abstractmethod
    def _filter(self, lattice: Lattice, values: Tensor) -> Tensor:
        """The kernel on vertices."""

    @abstractmethod
    def _gaussian(self, lattice: Lattice, values: Tensor) -> Tensor:
        """The Gaussian on the same stencil, by whose response to ones it is normalized."""

    @abstractmethod
    def _diagonal(self, lattice: Lattice) -> Tensor:
        """What a point returns to itself, ``[N]``."""


class GaussianKernel(CRFKernel):
    r"""The Gaussian kernel of :class:`DenseCRF`, as the separable blur of the lattice.

    .. math::
        k(\mathbf{f}_i, \mathbf{f}_j) = w \exp \left( - \frac{1}{2} \sum_k
        \frac{(f_{ik} - f_{jk})^2}{\sigma_k^2} \right)

    Args:
        dim: Number of features of a point.
        sigma: Bandwidth of the features, one for all or one for each.
        weight: The factor :math:`w`.
        learn_sigma: Learn the bandwidths; they stay positive.
        learn_weight: Learn the factor.

    Example:

        >>> kernel = GaussianKernel(dim=5, sigma=[80, 80, 13, 13, 13], weight=10)
        >>> kernel.lay(torch.rand(100, 5) * 255).num_points
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
    def _name(self) -> Hashable:
        return "blur"

    def _filter(self, lattice: Lattice, values: Tensor) -> Tensor:
        return lattice.blur(values)

    _gaussian = _filter

    def _diagonal(self, lattice: Lattice) -> Tensor:
        return constant(lattice, "blur diagonal", lambda: blur_diagonal(lattice))


class LearnedKernel(CRFKernel):
    r"""A free filter on the lattice as the kernel of :class:`DenseCRF`, from section 4 of the
    `"Learning Sparse High Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    One number for each offset of the stencil, shared by all labels, that starts as the Gaussian.
    It is normalized by the Gaussian on the same stencil, whose response stays positive.

    Args:
        dim: Number of features of a point.
        radius: Size of the neighborhood.
        sigma: Bandwidth of the features, one for all or one for each.
        weight: Factor on the filter.
        learn_sigma: Learn the bandwidths; they stay positive.
        learn_weight: Learn the factor.
        learn_filter: Learn the filter. Without, it stays the Gaussian on this stencil, which is
            what a learned filter is to be compared with.

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
        check_count(self, "radius", radius, 0)
        self.radius = radius
        # Not a buffer, so that .half() leaves it exact.
        self._stencil = named(self, stencils.gaussian, dim, radius)
        start = torch.empty(len(self._stencil))
        if learn_filter:
            self.filter_weight = Parameter(start)
        else:
            self.register_buffer("filter_weight", start)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.filter_weight.copy_(self._stencil)

    @property
    def _name(self) -> Hashable:
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
