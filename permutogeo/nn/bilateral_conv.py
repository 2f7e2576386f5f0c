"""The bilateral convolution layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import inits

from permutogeo.checks import check_matrix, check_normalization, check_parameters, fail
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.normalization import normalizers
from permutogeo.lattice.points import resolve_lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.filter_bank import ConvolutionLayer


class BilateralConv(ConvolutionLayer):
    r"""The bilateral convolution layer from the `"Learning Sparse High Dimensional Filters: Image
    Filtering, Dense CRFs and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_{v} w_{iv} \sum_{k} \left( \sum_{j} w_{j, v + k} \,
        \mathbf{x}_j \right) \mathbf{\Theta}_k + \mathbf{b}

    where :math:`w_{iv}` is the barycentric weight of point :math:`i` at vertex :math:`v` of a
    permutohedral lattice over the features, and :math:`k` runs over a stencil of neighbors.

    With ``normalize``, values are divided by :math:`n`, the response to ones of the Gaussian on the
    same stencil: at the input points (``"before"``), at the output points (``"after"``), or by the
    square root of both (``"symmetric"``). The output is differentiable in ``x`` and ``feature``.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        radius: Stencil radius :math:`s`, for :math:`K = (s + 1)^{d + 1} - s^{d + 1}` taps.
        groups: Number of blocked connections from input to output channels.
        dilation: Factor on the offsets of the stencil.
        bias: If ``False``, the layer does not learn an additive bias.
        shared: If ``True``, all channels share one scalar filter; ``out_channels`` must equal
            ``in_channels``.
        stencil: ``"full"``, or ``"axis"`` for the neighbors along the lattice axes only.
        normalize: ``None``, ``"before"``, ``"after"`` or ``"symmetric"``.
        init: Initialization of the filter. ``"gaussian"``: output channel :math:`c` is the Gaussian
            of input channel :math:`c`; output channels beyond the input channels are the Gaussian
            of a random mix of all inputs. ``"kaiming"``: Kaiming uniform; the taps of a normalized
            filter average, so they do not count in its fan-in.
        residual_to_gaussian: If ``True``, the filter is learned as a difference from the Gaussian.
        learn_scale: If ``True``, a positive factor on each feature is learned, initially 1.

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
        """Resets all learnable parameters."""
        super().reset_parameters()
        inits.zeros(self.log_scale)

    @property
    def _fan_taps(self) -> int:
        return super()._fan_taps if self.normalize is None else 1

    @property
    def scale(self) -> Tensor | None:
        """The learned factor on each feature, ``[d]``, or ``None``."""
        return None if self.log_scale is None else self.log_scale.exp()

    def _scale_features(self, feature: Tensor) -> Tensor:
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
            feature: Features of the points, divided by their bandwidths; a pair for input and
                output points; may be ``None`` if ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: ``Lattice.build(feature, batch)``, or the result of
                ``Lattice.build_bipartite`` for a pair, to build it once for several layers.
        """
        if lattice is not None and self.log_scale is not None:
            fail(
                self,
                "Expected no 'lattice' with learn_scale=True, since the scale moves the points "
                f"(got {lattice})",
            )
        lattice, at = resolve_lattice(
            feature, batch, lattice, layer=self, scale=self._scale_features
        )
        check_matrix(
            self,
            "x",
            x,
            device=lattice.device,
            rows=lattice.num_points,
            channels=self.in_channels,
        )
        self.initialize_parameters(x)
        check_parameters(self, x)
        working = working_dtype(x)
        before, after = self.normalization_factors(lattice, at, working)
        values = x.to(working) if before is None else x * before
        out = self.slice(lattice, self.convolve(lattice, self.splat(lattice, values)), at)
        if after is not None:
            out = out * after
        if self.bias is not None:
            out = out + self.bias
        return out.to(x.dtype)

    def normalization_factors(
        self, lattice: Lattice, at: Incidence | None, dtype: torch.dtype
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the factors on the input ``[N, 1]`` and the output ``[N', 1]``, where used.

        Args:
            lattice: The lattice.
            at: The output points, or ``None`` where these are the input points.
            dtype: Type of the factors.
        """
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
        return self._format_repr(**options)
