"""The bilateral convolution layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import inits

from permutogeo.checks import working_dtype
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_parameters, check_values, fail
from permutogeo.nn._convolution import ConvolutionLayer
from permutogeo.nn._normalizer import check_normalization, normalizers
from permutogeo.nn._points import lay_lattice


class BilateralConv(ConvolutionLayer):
    r"""The bilateral convolution layer from the `"Learning Sparse High Dimensional Filters: Image
    Filtering, Dense CRFs and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_{v} w_{iv} \sum_{k} \left( \sum_{j} w_{j, v + k} \,
        \mathbf{x}_j \right) \mathbf{\Theta}_k + \mathbf{b}

    where :math:`w_{iv}` is the barycentric weight of point :math:`i` at vertex :math:`v` of a
    permutohedral lattice over the features, and :math:`k` runs over a stencil of neighbors. Points
    are near each other where their features are, whatever they are points of.

    With ``normalize``, values are divided by :math:`n`, the response of the Gaussian of the same
    stencil to ones: at the input points (``"before"``), at the output points (``"after"``), or by
    the square root of each (``"symmetric"``). Gradients reach the features through it too.

    Args:
        in_channels: Size of each input sample, or ``-1`` to derive it from the first call.
        out_channels: Size of each output sample.
        dim: Number of features of a point.
        radius: Size of the neighborhood: :math:`K = (s + 1)^{d + 1} - s^{d + 1}` taps.
        groups: Blocked connections from input to output channels.
        dilation: Factor on the offsets of the stencil.
        bias: If ``False``, the layer does not learn an additive bias.
        shared: Learn one scalar filter for all channels; then ``out_channels`` is ``in_channels``.
        stencil: ``"full"``, or ``"axis"`` for the points on the axes alone.
        normalize: ``None``, ``"before"``, ``"after"`` or ``"symmetric"``.
        init: How the filter starts. ``"gaussian"``: each output channel as the smoothed input
            channel of the same number; those beyond the input channels, as the smoothed random mix
            of all. ``"kaiming"``: at random, in proportion to what an output sums up; a normalized
            filter averages over its taps, so they do not count.
        residual_to_gaussian: Learn the difference to the Gaussian of the stencil.
        learn_scale: Learn a positive factor on each feature, which starts at 1.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C_{out})`, or :math:`(N', C_{out})`

    Example:

        >>> conv = BilateralConv(3, 16, dim=5, normalize="after")
        >>> x, feature = torch.rand(100, 3), torch.rand(100, 5) * 4
        >>> conv(x, feature).shape
        torch.Size([100, 16])
        >>> conv(x, (feature, feature[:10] + 0.1)).shape
        torch.Size([10, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        radius: int = 1,
        groups: int = 1,
        dilation: int = 1,
        bias: bool = True,
        shared: bool = False,
        stencil: str = "full",
        normalize: str | None = None,
        init: str = "gaussian",
        residual_to_gaussian: bool = False,
        learn_scale: bool = False,
    ):
        check_normalization(self, normalize)
        super().__init__(
            in_channels,
            out_channels,
            dim,
            radius,
            groups,
            dilation,
            bias,
            shared,
            stencil,
            init,
            residual_to_gaussian,
        )
        self.normalize = normalize
        if learn_scale:
            self.log_scale = Parameter(torch.empty(dim))
        else:
            self.register_parameter("log_scale", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        inits.zeros(self.log_scale)

    @property
    def _taps_read(self) -> int:
        return super()._taps_read if self.normalize is None else 1

    @property
    def scale(self) -> Tensor | None:
        """The factor on each feature, ``[d]``, if it is learned."""
        return None if self.log_scale is None else self.log_scale.exp()

    def _stretch(self, feature: Tensor) -> Tensor:
        return feature if self.scale is None else feature * self.scale

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
            feature: Coordinates of the points, divided by their bandwidths; a pair for input and
                output points; ``None`` if ``lattice`` is given.
            batch: Graph of each point; graphs do not mix.
            lattice: ``Lattice.build(feature, batch)``, or for a pair of features what
                ``Lattice.build_bipartite`` returns, so that a stack of layers builds it once.
        """
        if lattice is not None and self.log_scale is not None:
            fail(
                self,
                "Expected no 'lattice' with learn_scale=True, since the scale moves the points "
                f"(got {lattice})",
            )
        lattice, at = lay_lattice(self, feature, batch, lattice, self._stretch)
        check_values(self, "x", x, self.in_channels, lattice.device, lattice.num_points)
        self.initialize_parameters(x)
        check_parameters(self, x)
        working = working_dtype(x)
        before, after = self._normalizers(lattice, at, working)
        values = x.to(working) if before is None else x * before
        out = self.slice(lattice, self.convolve(lattice, self.splat(lattice, values)), at)
        if after is not None:
            out = out * after
        if self.bias is not None:
            out = out + self.bias
        return out.to(x.dtype)

    def _normalizers(
        self, lattice: Lattice, at: Incidence | None, dtype: torch.dtype
    ) -> tuple[Tensor | None, Tensor | None]:
        stencil = (self.radius, self.dilation, self.stencil)

        def gaussian(values: Tensor) -> Tensor:
            radius, dilation, kind = stencil
            taps = self.gaussian(values)
            return lattice.convolve(values, taps, radius, 1, dilation, kind, shared=True)

        return normalizers(self.normalize, lattice, at, dtype, stencil, gaussian)

    def __repr__(self) -> str:
        options = self._options()
        if self.normalize is not None:
            options["normalize"] = self.normalize
        if self.log_scale is not None:
            options["learn_scale"] = True
        return self._named(**options)
