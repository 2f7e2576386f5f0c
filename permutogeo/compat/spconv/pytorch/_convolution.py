"""Base class of the sparse convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from permutogeo.checks import check_integer, check_parameters, fail
from permutogeo.compat.spconv._rules import IndiceData, strided_rule, submanifold_rule
from permutogeo.compat.spconv.core import ConvAlgo
from permutogeo.compat.spconv.pytorch.core import SparseConvTensor, expand_nd
from permutogeo.compat.spconv.pytorch.modules import SparseModule
from permutogeo.compat.spconv.pytorch.ops import get_conv_output_size, get_deconv_output_size
from permutogeo.ops.strided import StridedKernel

Extent = int | Sequence[int]
_COUNT = "max_num_voxels_during_training"


class SparseConvolution(SparseModule):
    """Base class of the sparse convolutions.

    .. math::
        y_o = b + \\sum_{k} W_k \\, x_{o \\cdot stride - padding + k \\cdot dilation}

    where the sum is over the taps whose voxel is present.

    Args:
        ndim: Number of coordinates.
        subm: Submanifold convolution: the outputs are the input's voxels, the kernel is centered,
            and ``stride`` and ``padding`` are ignored.
        transposed: Transposed convolution.
        inverse: Inverse of the convolution that has the same ``indice_key``: its outputs are that
            convolution's inputs.
        indice_key: Name under which the rule is kept, for further submanifold convolutions of the
            same voxels or for an inverse convolution.
        algo, fp32_accum, large_kernel_fast_algo, name: Accepted for compatibility and ignored.
        record_voxel_count: Keep the largest number of output voxels in a buffer.

    The weight has the layout of spconv 2, ``[out_channels, *kernel_size, in_channels / groups]``.
    """

    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Extent = 3,
        stride: Extent = 1,
        padding: Extent = 0,
        dilation: Extent = 1,
        groups: int = 1,
        bias: bool = True,
        subm: bool = False,
        output_padding: Extent = 0,
        transposed: bool = False,
        inverse: bool = False,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        record_voxel_count: bool = False,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(name)
        self.ndim = ndim
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = expand_nd(ndim, kernel_size), expand_nd(ndim, stride)
        self.padding, self.dilation = expand_nd(ndim, padding), expand_nd(ndim, dilation)
        self.output_padding = expand_nd(ndim, output_padding)
        self.subm, self.transposed, self.inverse = subm, transposed, inverse
        self.indice_key, self.algo, self.fp32_accum = indice_key, algo, fp32_accum
        self.record_voxel_count = record_voxel_count
        self._check_arguments()
        shape = (out_channels, *self.kernel_size, in_channels // groups)
        self.weight = Parameter(torch.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        if record_voxel_count and not (subm or inverse):
            self.register_buffer(_COUNT, torch.zeros(1, dtype=torch.int32, device=device))
            self.register_load_state_dict_pre_hook(_add_missing_count)
        self.reset_parameters()

    def _check_arguments(self) -> None:
        for name in ("in_channels", "out_channels", "groups"):
            check_integer(self, name, getattr(self, name))
        for name, least in (("kernel_size", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
            for value in getattr(self, name):
                check_integer(self, name, value, least)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            channels = f"{self.in_channels} and {self.out_channels}"
            fail(self, f"Expected 'groups' to divide {channels} channels (got {self.groups})")
        if self.subm and any(size % 2 == 0 for size in self.kernel_size):
            fail(
                self, f"Expected an odd 'kernel_size', which has a center (got {self.kernel_size})"
            )
        if self.inverse and self.indice_key is None:
            fail(self, "Expected the 'indice_key' of the convolution to invert (got None)")
        if self.conv1x1 and not self.subm and any(self.padding):
            fail(self, f"Expected no 'padding' of a kernel of size 1 (got {self.padding})")

    @property
    def conv1x1(self) -> bool:
        """Whether the layer is one matrix product."""
        single = math.prod(self.kernel_size) == 1 and not (self.inverse or self.transposed)
        return single and (self.subm or math.prod(self.stride) == 1)

    def is_inverseable(self) -> bool:
        """Return whether a :class:`SparseInverseConv3d` can refer to the layer."""
        return self.indice_key is not None and not self.subm

    def get_max_num_voxels(self) -> Tensor | None:
        """Return the largest number of output voxels so far, if it is recorded."""
        return getattr(self, _COUNT, None)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        bound = 1 / math.sqrt(self.in_channels // self.groups * math.prod(self.kernel_size))
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self, input: SparseConvTensor, add_input: SparseConvTensor | None = None
    ) -> SparseConvTensor:
        """Return the convolved tensor, plus the features of ``add_input``."""
        self._check_input(input)
        if self.conv1x1 and self.groups == 1:
            # As spconv does: the weight's memory is read as [in, out], not transposed.
            matrix = self.weight.reshape(self.in_channels, self.out_channels)
            out = input.replace_feature(self._with_bias(input.features @ matrix))
        else:
            rule, indice_dict = self._rule(input)
            out = self._convolve(input, rule, indice_dict)
        if add_input is not None:
            out = out + add_input
        return out

    def _convolve(
        self, input: SparseConvTensor, rule: IndiceData, indice_dict: dict[str, IndiceData]
    ) -> SparseConvTensor:
        edges, ends = rule.edges, (rule.out_indices, rule.out_spatial_shape)
        if self.inverse:
            edges, ends = edges.reversed(), (rule.indices, rule.spatial_shape)
        features, weight = input.features, self.weight
        kind = torch.promote_types(features.dtype, weight.dtype)
        exact = kind if kind == torch.float64 else torch.float32
        found = edges.convolve(features.to(exact), self._filter().to(exact)).to(kind)
        count = self.get_max_num_voxels()
        if count is not None:
            count.clamp_(min=len(found))
        return input.with_voxels(self._with_bias(found), *ends, indice_dict)

    def _filter(self) -> Tensor:
        """The weight as ``[K, in_channels, out_channels]``, with zeros between groups."""
        flat = self.weight.flatten(1, -2).permute(1, 2, 0)
        if self.groups == 1:
            return flat
        taps, width, outputs = flat.shape
        member = torch.eye(self.groups, dtype=flat.dtype, device=flat.device)
        # [K, 1, C / groups, groups, C' / groups], zero where the two groups differ
        split = flat.view(taps, 1, width, self.groups, outputs // self.groups)
        return (split * member[:, None, :, None]).reshape(taps, -1, outputs)

    def _with_bias(self, features: Tensor) -> Tensor:
        return features if self.bias is None else features + self.bias

    def _rule(self, input: SparseConvTensor) -> tuple[IndiceData, dict[str, IndiceData]]:
        """Return the rule, and the rules of the output."""
        found = input.find_indice_pair(self.indice_key)
        if self.inverse:
            self._check_inverse(input, found)
            return found, input.indice_dict  # type: ignore[return-value]
        if found is not None:
            self._check_reuse(input, found)
            return found, input.indice_dict
        if self.subm:
            rule = submanifold_rule(input, self.kernel_size, self.dilation)
        else:
            settings = (self.kernel_size, self.stride, self.padding, self.dilation)
            rule = strided_rule(
                input, StridedKernel(*settings, self.transposed), self._output_shape(input)
            )
        if self.indice_key is None:
            return rule, input.indice_dict
        return rule, {**input.indice_dict, self.indice_key: rule}

    def _output_shape(self, input: SparseConvTensor) -> list[int]:
        settings = (self.kernel_size, self.stride, self.padding, self.dilation)
        if self.transposed:
            shape = get_deconv_output_size(input.spatial_shape, *settings, self.output_padding)
        else:
            shape = get_conv_output_size(input.spatial_shape, *settings)
        if min(shape) < 1:
            fail(
                self,
                f"Expected a spatial shape that leaves an output (got {input.spatial_shape}, "
                f"whose output would be {shape})",
            )
        return shape

    def _check_input(self, input: Any) -> None:
        if not isinstance(input, SparseConvTensor):
            fail(self, f"Expected a SparseConvTensor (got {type(input).__name__})", TypeError)
        features = input.features
        if features.shape != (len(input.indices), self.in_channels):
            fail(
                self,
                f"Expected features of shape [{len(input.indices)}, {self.in_channels}] "
                f"(got {list(features.shape)})",
            )
        if len(input.spatial_shape) != self.ndim:
            fail(self, f"Expected {self.ndim} coordinates (got shape {input.spatial_shape})")
        if not features.is_floating_point():
            fail(
                self,
                f"Expected features of a floating-point type (got {features.dtype})",
                TypeError,
            )
        check_parameters(self, features)

    def _check_reuse(self, input: SparseConvTensor, rule: IndiceData) -> None:
        """Raise unless a rule is one for this layer and these voxels."""
        key = f"'indice_key' {self.indice_key!r}"
        if not (self.subm and rule.is_subm):
            fail(self, f"Expected an unused {key}: only submanifold convolutions share one")
        for name, mine, theirs in (
            ("kernel size", self.kernel_size, rule.ksize),
            ("dilation", self.dilation, rule.dilation),
            ("spatial shape", input.spatial_shape, rule.spatial_shape),
        ):
            if mine != theirs:
                fail(self, f"Expected {name} {theirs} as before with {key} (got {mine})")
        self._check_voxels(input, rule.indices, key)

    def _check_inverse(self, input: SparseConvTensor, rule: IndiceData | None) -> None:
        key = f"'indice_key' {self.indice_key!r}"
        if rule is None or rule.is_subm:
            fail(self, f"Expected {key} of a strided convolution or pooling before (got none)")
        if self.kernel_size != rule.ksize:
            fail(self, f"Expected kernel size {rule.ksize} as of {key} (got {self.kernel_size})")
        if input.spatial_shape != rule.out_spatial_shape:
            expected, got = rule.out_spatial_shape, input.spatial_shape
            fail(self, f"Expected spatial shape {expected} as the output of {key} (got {got})")
        self._check_voxels(input, rule.out_indices, key)

    def _check_voxels(self, input: SparseConvTensor, indices: Tensor, key: str) -> None:
        if input.indices is indices:
            return
        if input.indices.shape != indices.shape or not torch.equal(input.indices, indices):
            fail(
                self,
                f"Expected the {len(indices)} voxels of {key} in the same order (got other "
                f"{len(input.indices)} voxels)",
            )

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}, padding={self.padding}, dilation={self.dilation}"
        text += f", output_padding={self.output_padding}"
        text += f", groups={self.groups}" * (self.groups != 1)
        return text + ", bias=False" * (self.bias is None)


def _add_missing_count(module: Any, state_dict: dict, prefix: str, *_: Any) -> None:
    """Load weights that were saved without the number of voxels."""
    state_dict.setdefault(prefix + _COUNT, torch.zeros(1, dtype=torch.int32))
