"""The Gaussian filter with fixed or learned bandwidths."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from permutogeo.checks import check_matrix, check_normalization, fail, prefix_errors
from permutogeo.functional import gaussian_filter
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.normalization import normalized, normalizers
from permutogeo.lattice.points import resolve_lattice, scale_features
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.bandwidth import Bandwidth
from permutogeo.nn.layer import LatticeLayer


class GaussianFilter(LatticeLayer):
    r"""The Gaussian filter over features from the `"Fast High-Dimensional Filtering Using the
    Permutohedral Lattice" <https://graphics.stanford.edu/papers/permutohedral/>`_ paper, with fixed
    or learned bandwidths; the module of :func:`permutogeo.functional.gaussian_filter`.

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{n_i} \sum_j \exp \left( - \frac{1}{2} \sum_k
        \frac{(f_{ik} - f_{jk})^2}{\sigma_k^2} \right) \mathbf{x}_j

    where :math:`n_i` is the sum of the weights, for ``normalize="after"``.

    Args:
        dim: Feature dimension :math:`d`.
        sigma: Bandwidth, one for all features or one for each.
        learn_sigma: If ``True``, the logarithms of the bandwidths are learned.
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
        """Resets all learnable parameters."""
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
            feature: Features of the points; a pair for input and output points; may be ``None`` if
                ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: ``Lattice.build(feature / sigma, batch)``, or the result of
                ``Lattice.build_bipartite`` for a pair.
        """
        if lattice is not None and self.bandwidth.learned:
            fail(
                self,
                "Expected no 'lattice' with learn_sigma=True, since sigma moves the points "
                f"(got {lattice})",
            )
        if self.fused:
            feature = scale_features(self, feature, lattice, self.bandwidth)
            return prefix_errors(self, gaussian_filter, x, feature, batch, self.normalize, lattice)
        lattice, at = resolve_lattice(feature, batch, lattice, layer=self, scale=self.bandwidth)
        check_matrix(self, "x", x, device=lattice.device, rows=lattice.num_points)
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
