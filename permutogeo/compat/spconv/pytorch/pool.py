"""Pooling over the voxels that are present."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from permutogeo.checks import check_integer, fail
from permutogeo.compat.spconv._rules import IndiceData, VoxelPairs, strided_rule, submanifold_rule
from permutogeo.compat.spconv.core import ConvAlgo
from permutogeo.compat.spconv.pytorch._convolution import Extent
from permutogeo.compat.spconv.pytorch.core import SparseConvTensor, expand_nd
from permutogeo.compat.spconv.pytorch.modules import SparseModule
from permutogeo.compat.spconv.pytorch.ops import get_conv_output_size
from permutogeo.ops.strided import StridedKernel, tap_max


class _SparsePool(SparseModule, ABC):
    """Base class of the pooling layers.

    Args:
        stride: Step of the kernel; its size by default.
        indice_key: Name under which the rule is kept, for an inverse convolution.
        subm: Pool at the input's voxels.
        algo, record_voxel_count, name: Accepted for compatibility and ignored.
    """

    def __init__(
        self,
        ndim: int,
        kernel_size: Extent = 3,
        stride: Extent | None = 1,
        padding: Extent = 0,
        dilation: Extent = 1,
        indice_key: str | None = None,
        subm: bool = False,
        algo: ConvAlgo | None = None,
        record_voxel_count: bool = False,
        name: str | None = None,
    ):
        super().__init__(name)
        self.ndim = ndim
        self.kernel_size = expand_nd(ndim, kernel_size)
        self.stride = list(self.kernel_size) if stride is None else expand_nd(ndim, stride)
        self.padding, self.dilation = expand_nd(ndim, padding), expand_nd(ndim, dilation)
        self.indice_key, self.subm, self.algo = indice_key, subm, algo
        for key, least in (("kernel_size", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
            for value in getattr(self, key):
                check_integer(self, key, value, least)
        if subm and any(size % 2 == 0 for size in self.kernel_size):
            fail(self, f"Expected an odd 'kernel_size' for 'subm' (got {self.kernel_size})")

    def forward(self, input: SparseConvTensor) -> SparseConvTensor:
        """Return the pooled tensor."""
        if not isinstance(input, SparseConvTensor):
            fail(self, f"Expected a SparseConvTensor (got {type(input).__name__})", TypeError)
        if len(input.spatial_shape) != self.ndim:
            fail(self, f"Expected {self.ndim} coordinates (got shape {input.spatial_shape})")
        if self.indice_key is not None and self.indice_key in input.indice_dict:
            fail(self, f"Expected an unused 'indice_key' (got {self.indice_key!r})")
        rule = self._rule(input)
        indice_dict = input.indice_dict
        if self.indice_key is not None:
            indice_dict = {**indice_dict, self.indice_key: rule}
        out = self._pool(input.features, rule.edges)
        return input.with_voxels(out, rule.out_indices, rule.out_spatial_shape, indice_dict)

    def _rule(self, input: SparseConvTensor) -> IndiceData:
        if self.subm:
            return submanifold_rule(input, self.kernel_size, self.dilation)
        settings = (self.kernel_size, self.stride, self.padding, self.dilation)
        shape = get_conv_output_size(input.spatial_shape, *settings)
        if min(shape) < 1:
            fail(
                self,
                f"Expected a spatial shape that leaves an output (got {input.spatial_shape}, "
                f"whose output would be {shape})",
            )
        return strided_rule(input, StridedKernel(*settings), shape)

    @abstractmethod
    def _pool(self, features: Tensor, edges: VoxelPairs) -> Tensor:
        """Return the features of the output voxels."""

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.stride}"
        return text + f", padding={self.padding}, dilation={self.dilation}"


class SparseMaxPool(_SparsePool):
    """Largest feature of the voxels that are present; equal ones all get the gradient."""

    def _pool(self, features: Tensor, edges: VoxelPairs) -> Tensor:
        return tap_max(features, edges.edges, edges.begin, edges.num_outputs)


class SparseAvgPool(_SparsePool):
    """Mean feature of the voxels that are present."""

    def _pool(self, features: Tensor, edges: VoxelPairs) -> Tensor:
        exact = features if features.dtype == torch.float64 else features.float()
        identity = torch.eye(exact.shape[1], dtype=exact.dtype, device=exact.device)
        total = edges.convolve(exact, identity.expand(len(edges.opposite), -1, -1))
        ones = torch.ones(edges.num_inputs, 1, dtype=exact.dtype, device=exact.device)
        count = edges.convolve(ones, ones.new_ones(len(edges.opposite), 1, 1))
        return (total / count).to(features.dtype)


class _GlobalPool(SparseModule):
    def forward(self, input: SparseConvTensor) -> Tensor:
        """Return a row for each grid of the batch, ``[B, C]``."""
        graph = input.indices[:, :1].long().expand_as(input.features)
        out = input.features.new_zeros(input.batch_size, input.features.shape[1])
        return out.scatter_reduce(0, graph, input.features, self.reduce, include_self=False)

    reduce: str


class SparseGlobalMaxPool(_GlobalPool):
    """Largest feature of each grid of the batch; 0 for a grid without voxels."""

    reduce = "amax"


class SparseGlobalAvgPool(_GlobalPool):
    """Mean feature of each grid of the batch; 0 for a grid without voxels."""

    reduce = "mean"


class _PerAxis:
    """Mixin: the arguments of a pooling layer of a fixed number of coordinates."""

    dim: int

    def __init__(
        self,
        kernel_size: Extent,
        stride: Extent | None = None,
        padding: Extent = 0,
        dilation: Extent = 1,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        record_voxel_count: bool = False,
        name: str | None = None,
    ):
        settings = (kernel_size, stride, padding, dilation, indice_key)
        super().__init__(self.dim, *settings, algo=algo, name=name)  # type: ignore[call-arg]


class SparseMaxPool1d(_PerAxis, SparseMaxPool):
    """Max pooling over one coordinate."""

    dim = 1


class SparseMaxPool2d(_PerAxis, SparseMaxPool):
    """Max pooling over two coordinates."""

    dim = 2


class SparseMaxPool3d(_PerAxis, SparseMaxPool):
    """Max pooling over three coordinates."""

    dim = 3


class SparseMaxPool4d(_PerAxis, SparseMaxPool):
    """Max pooling over four coordinates."""

    dim = 4


class SparseAvgPool1d(_PerAxis, SparseAvgPool):
    """Average pooling over one coordinate."""

    dim = 1


class SparseAvgPool2d(_PerAxis, SparseAvgPool):
    """Average pooling over two coordinates."""

    dim = 2


class SparseAvgPool3d(_PerAxis, SparseAvgPool):
    """Average pooling over three coordinates."""

    dim = 3
