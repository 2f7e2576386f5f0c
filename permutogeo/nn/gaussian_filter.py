"""The Gaussian filter, with bandwidths that may be learned."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from permutogeo.checks import working_dtype
from permutogeo.functional import gaussian_filter
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._bandwidth import Bandwidth
from permutogeo.nn._check import check_values, fail, named
from permutogeo.nn._layer import LatticeLayer
from permutogeo.nn._normalizer import check_normalization, normalized, normalizers
from permutogeo.nn._points import lay_lattice, scaled


class GaussianFilter(LatticeLayer):
    r"""The Gaussian filter over features from the `"Fast High-Dimensional Filtering Using the
    Permutohedral Lattice" <https://graphics.stanford.edu/papers/permutohedral/>`_ paper, as a layer
    whose bandwidths may be learned; the twin of :func:`permutogeo.functional.gaussian_filter`.

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{n_i} \sum_j \exp \left( - \frac{1}{2} \sum_k
        \frac{(f_{ik} - f_{jk})^2}{\sigma_k^2} \right) \mathbf{x}_j

    where :math:`n_i` is the sum of the weights, for ``normalize="after"``.

    Args:
        dim: Number of features of a point.
        sigma: Bandwidth of the features, one for all or one for each.
        learn_sigma: Learn the bandwidths; they stay positive.
        normalize: ``None``, ``"before"``, ``"after"`` or ``"symmetric"``, as in
            :func:`permutogeo.functional.gaussian_filter`.

    Shapes:
        - x: :math:`(N, C)`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C)`, or :math:`(N', C)`

    Example:

        >>> import torch
        >>> smooth = GaussianFilter(dim=2, sigma=0.5, learn_sigma=True)
        >>> smooth(torch.rand(100, 3), torch.rand(100, 2)).shape
        torch.Size([100, 3])
    """

    def __init__(
        self,
        dim: int,
        sigma: float | Sequence[float] = 1.0,
        learn_sigma: bool = False,
        normalize: str | None = "after",
    ):
        super().__init__(dim)
        check_normalization(self, normalize)
        self.normalize = normalize
        self.bandwidth = Bandwidth(self, dim, sigma, learn_sigma)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.bandwidth.reset_parameters()

    @property
    def sigma(self) -> Tensor:
        """The bandwidth of each feature, ``[d]``."""
        return self.bandwidth.sigma

    def forward(
        self,
        x: Tensor,
        feature: Tensor | tuple[Tensor, Tensor] | None,
        batch: Tensor | tuple[Tensor, Tensor] | None = None,
        lattice: Lattice | tuple[Lattice, Incidence] | None = None,
    ) -> Tensor:
        """Filter values at points.

        Args:
            x: Values at the input points.
            feature: Coordinates of the points; a pair for input and output points; ``None`` if
                ``lattice`` is given.
            batch: Graph of each point; graphs do not mix.
            lattice: ``Lattice.build(feature / sigma, batch)``, or for a pair of features what
                ``Lattice.build_bipartite`` returns.
        """
        if lattice is not None and self.bandwidth.learned:
            fail(
                self,
                "Expected no 'lattice' with learn_sigma=True, since sigma moves the points "
                f"(got {lattice})",
            )
        if self.fused:
            feature = scaled(self, feature, lattice, self.bandwidth)
            return named(self, gaussian_filter, x, feature, batch, self.normalize, lattice)
        lattice, at = lay_lattice(self, feature, batch, lattice, self.bandwidth)
        check_values(self, "x", x, -1, lattice.device, lattice.num_points)
        wide = x.to(working_dtype(x))

        def kernel(values: Tensor) -> Tensor:
            return self.slice(lattice, self.blur(lattice, self.splat(lattice, values)), at)

        norms = normalizers(self.normalize, lattice, at, wide.dtype, "blur", lattice.blur)
        return normalized(kernel, wide, norms).to(x.dtype)

    def __repr__(self) -> str:
        each = [round(value, 6) for value in self.sigma.tolist()]
        parts = [f"dim={self.dim}", f"sigma={each[0] if len(set(each)) == 1 else each}"]
        if self.bandwidth.learned:
            parts.append("learn_sigma=True")
        return f"{type(self).__name__}({', '.join(parts)}, normalize={self.normalize!r})"
