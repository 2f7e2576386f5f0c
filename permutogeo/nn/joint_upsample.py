"""Joint bilateral upsampling with a Gaussian or learned filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import check_integer, check_not_vmapped, fail, prefix_errors
from permutogeo.functional import block_means, fill_unreached, upsampling_factor
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.normalization import append_ones
from permutogeo.lattice.points import Pair
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.bandwidth import Bandwidth
from permutogeo.nn.bilateral_conv import BilateralConv


class JointBilateralUpsample(torch.nn.Module):
    r"""Joint bilateral upsampling from the `"Joint Bilateral Upsampling"
    <https://doi.org/10.1145/1276377.1276497>`_ paper, with the learned filter of `"Learning Sparse
    High Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_ (section 3.1).

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{n_i} \sum_{v} w_{iv} \sum_{k} \theta_k \sum_{j}
        w_{j, v + k} \, \mathbf{x}_j

    where :math:`j` runs over the coarse grid and :math:`i` over that of the guide, with position
    and guide as features, and :math:`n_i` is the response to ones of the Gaussian on the same
    stencil. The features of a coarse value are the means over its block. Output points that no
    coarse value reaches are filled by Gaussian filters of twice, four times, … the bandwidths.

    Args:
        in_channels: Size of each input and output sample.
        guide_channels: Number of channels of the guide.
        sigma_pos: Bandwidth of positions, in pixels of the guide.
        sigma_color: Bandwidth of the guide, in its own units.
        radius: Stencil radius; radius 2 has 65 taps for a gray guide and 665 for colors.
        learn_filter: If ``False``, the filter stays the Gaussian on this stencil, the baseline of a
            learned filter.
        learn_sigma: If ``True``, the logarithms of the bandwidths are learned.
        shared: If ``True``, all channels share one scalar filter.
        keep_constants: If ``True``, the filter is applied to the differences from the Gaussian's
            result :math:`g_i`, as :math:`g_i + \frac{1}{n_i} \sum \theta_k w w (x_j - g_i)`, which
            preserves constants. For values far from 0, such as depth.

    Shapes:
        - x: :math:`(B, C, h, w)` or :math:`(C, h, w)`
        - guide: :math:`(B, G, H, W)` or :math:`(G, H, W)`, larger by an integer factor :math:`f`:
          :math:`h = \lceil H / f \rceil`
        - output: :math:`(B, C, H, W)` or :math:`(C, H, W)`

    Example:

        >>> upsample = JointBilateralUpsample(3, 1, sigma_pos=16.0, sigma_color=0.05)
        >>> upsample(torch.rand(2, 3, 8, 6), torch.rand(2, 1, 32, 24)).shape
        torch.Size([2, 3, 32, 24])
    """

    def __init__(
        self,
        in_channels: int,
        guide_channels: int,
        sigma_pos: float,
        sigma_color: float,
        radius: int = 2,
        learn_filter: bool = True,
        learn_sigma: bool = False,
        shared: bool = True,
        keep_constants: bool = False,
    ):
        super().__init__()
        check_integer(self, "in_channels", in_channels)
        check_integer(self, "guide_channels", guide_channels)
        check_integer(self, "radius", radius, 0)
        if keep_constants and not shared:
            fail(self, "Expected shared=True with keep_constants=True (got shared=False)")
        self.in_channels, self.guide_channels = in_channels, guide_channels
        self.keep_constants = keep_constants
        dim = 2 + guide_channels
        sigma = [sigma_pos] * 2 + [sigma_color] * guide_channels
        self.bandwidth = Bandwidth(self, dim, sigma, learn_sigma)
        channels = in_channels + keep_constants  # one more for the response to ones
        self.conv = BilateralConv(
            channels, channels, dim, radius, bias=False, shared=shared, normalize="after"
        )
        self.conv.requires_grad_(learn_filter)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        self.bandwidth.reset_parameters()
        self.conv.reset_parameters()

    def build_lattice(self, guide: Tensor, size: Sequence[int]) -> tuple[Lattice, Incidence]:
        """Return the lattice for coarse values of ``size`` (rows, columns), to share between calls.

        Shapes:
            - guide: :math:`(B, G, H, W)` or :math:`(G, H, W)`
        """
        guide = self._batched("guide", guide, self.guide_channels)
        feature, batch = self._points(guide, size)
        return prefix_errors(self, Lattice.build_bipartite, *feature, *(batch or (None, None)))

    def forward(
        self, x: Tensor, guide: Tensor, lattice: tuple[Lattice, Incidence] | None = None
    ) -> Tensor:
        """Upsample values.

        Args:
            x: Coarse values.
            guide: The guide, at the resolution of the output.
            lattice: The result of :meth:`build_lattice` for this guide.
        """
        if lattice is not None and self.bandwidth.learned:
            fail(self, "Expected no 'lattice' with learn_sigma=True, since sigma moves the points")
        values = self._batched("x", x, self.in_channels)
        large = self._batched("guide", guide, self.guide_channels)
        if len(values) != len(large) or values.device != large.device:
            fail(
                self,
                f"Expected 'x' and 'guide' of one batch on one device (got {len(values)} on "
                f"{values.device} and {len(large)} on {large.device})",
            )
        lattice = self.build_lattice(guide, values.shape[2:]) if lattice is None else lattice
        out = self._filter(values.movedim(1, -1).flatten(0, 2), *lattice)
        out = out.view(len(large), *large.shape[2:], -1).movedim(-1, 1)
        return out if x.dim() == 4 else out[0]

    def _filter(self, rows: Tensor, lattice: Lattice, at: Incidence) -> Tensor:
        """Filter coarse values ``[n, C]`` to the points of the guide, ``[N, C]``."""
        _, factor = self.conv.normalization_factors(lattice, at, working_dtype(rows))
        assert factor is not None and lattice.others is not None
        if self.keep_constants:
            out = self._filter_differences(rows, lattice, at, factor)
        else:
            out = self.conv(rows, None, None, (lattice, at))
        feature, batch = (lattice.feature, lattice.others[0]), lattice.others[1]
        batches = None if lattice.batch is None or batch is None else (lattice.batch, batch)
        return fill_unreached(out, factor[:, 0] > 0, rows, feature, batches)

    def _filter_differences(
        self, rows: Tensor, lattice: Lattice, at: Incidence, factor: Tensor
    ) -> Tensor:
        """Add the filter's response to the differences from the Gaussian's result to the latter."""
        values = lattice.splat(rows.to(factor.dtype))
        taps = self.conv.gaussian(values)
        gauss = lattice.slice(lattice.convolve(values, taps, self.conv.radius, shared=True), at)
        gauss = (gauss * factor).to(rows.dtype)
        out = self.conv(append_ones(rows), None, None, (lattice, at))
        return gauss + out[:, :-1] - gauss * out[:, -1:]

    def _points(self, guide: Tensor, size: Sequence[int]) -> tuple[Pair, Pair | None]:
        """Return features and graphs of the coarse points and of the points of the guide."""
        factor = prefix_errors(self, upsampling_factor, size, guide.shape[2:])
        large = guide.to(working_dtype(guide)).movedim(1, -1)
        rows, columns = (torch.arange(n, device=guide.device) for n in guide.shape[2:])
        grid = torch.cartesian_prod(rows, columns).flip(1).to(large.dtype)
        fine = torch.cat([grid.view(*large.shape[1:3], 2).expand(*large.shape[:3], 2), large], -1)
        parts = (block_means(fine, factor), fine)
        src, dst = (self.bandwidth(part.flatten(0, 2)) for part in parts)
        if len(guide) == 1:
            return (src, dst), None
        graph = torch.arange(len(guide), device=guide.device)
        batch_src, batch_dst = (
            graph.repeat_interleave(part.shape[1] * part.shape[2]) for part in parts
        )
        return (src, dst), (batch_src, batch_dst)

    def _batched(self, name: str, x: Any, channels: int) -> Tensor:
        """Check an argument and return it with a batch dimension."""
        if not isinstance(x, Tensor):
            fail(self, f"Expected '{name}' to be a tensor (got {type(x).__name__})", TypeError)
        check_not_vmapped(self, x)
        if not x.is_floating_point():
            fail(self, f"Expected '{name}' of a floating-point type (got {x.dtype})", TypeError)
        if x.dim() not in (3, 4) or x.shape[-3] != channels or x.shape[0] == 0:
            fail(
                self,
                f"Expected '{name}' of shape [B, {channels}, H, W] or [{channels}, H, W] "
                f"(got {list(x.shape)})",
            )
        return x if x.dim() == 4 else x.unsqueeze(0)

    def extra_repr(self) -> str:
        sigma = self.bandwidth.sigma.tolist()
        return (
            f"{self.in_channels}, {self.guide_channels}, sigma_pos={sigma[0]:g}, "
            f"sigma_color={sigma[2]:g}"
        )
