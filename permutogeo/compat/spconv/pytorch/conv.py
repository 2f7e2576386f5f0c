"""Sparse convolutions: submanifold, strided, transposed and inverse, in one to four dimensions."""

from __future__ import annotations

from permutogeo.compat.spconv.core import ConvAlgo
from permutogeo.compat.spconv.pytorch._convolution import Extent, SparseConvolution


class _SparseConv(SparseConvolution):
    dim: int
    transposes = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extent,
        stride: Extent = 1,
        padding: Extent = 0,
        dilation: Extent = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        record_voxel_count: bool = False,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
    ):
        super().__init__(
            *(self.dim, in_channels, out_channels, kernel_size, stride, padding, dilation),
            *(groups, bias),
            transposed=self.transposes,
            indice_key=indice_key,
            algo=algo,
            fp32_accum=fp32_accum,
            record_voxel_count=record_voxel_count,
            name=name,
        )


class _SubMConv(SparseConvolution):
    dim: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extent,
        stride: Extent = 1,
        padding: Extent = 0,
        dilation: Extent = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
    ):
        super().__init__(
            *(self.dim, in_channels, out_channels, kernel_size, stride, padding, dilation),
            *(groups, bias),
            subm=True,
            indice_key=indice_key,
            algo=algo,
            fp32_accum=fp32_accum,
            name=name,
        )


class _SparseInverseConv(SparseConvolution):
    dim: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extent,
        indice_key: str,
        bias: bool = True,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
    ):
        super().__init__(
            *(self.dim, in_channels, out_channels, kernel_size),
            bias=bias,
            inverse=True,
            indice_key=indice_key,
            algo=algo,
            fp32_accum=fp32_accum,
            name=name,
        )


class _SparseConvTranspose(_SparseConv):
    transposes = True


class SubMConv1d(_SubMConv):
    """Submanifold convolution of one coordinate."""

    dim = 1


class SubMConv2d(_SubMConv):
    """Submanifold convolution of two coordinates."""

    dim = 2


class SubMConv3d(_SubMConv):
    """Submanifold convolution of three coordinates."""

    dim = 3


class SubMConv4d(_SubMConv):
    """Submanifold convolution of four coordinates."""

    dim = 4


class SparseConv1d(_SparseConv):
    """Sparse convolution of one coordinate."""

    dim = 1


class SparseConv2d(_SparseConv):
    """Sparse convolution of two coordinates."""

    dim = 2


class SparseConv3d(_SparseConv):
    """Sparse convolution of three coordinates."""

    dim = 3


class SparseConv4d(_SparseConv):
    """Sparse convolution of four coordinates."""

    dim = 4


class SparseConvTranspose1d(_SparseConvTranspose):
    """Transposed sparse convolution of one coordinate."""

    dim = 1


class SparseConvTranspose2d(_SparseConvTranspose):
    """Transposed sparse convolution of two coordinates."""

    dim = 2


class SparseConvTranspose3d(_SparseConvTranspose):
    """Transposed sparse convolution of three coordinates."""

    dim = 3


class SparseConvTranspose4d(_SparseConvTranspose):
    """Transposed sparse convolution of four coordinates."""

    dim = 4


class SparseInverseConv1d(_SparseInverseConv):
    """Inverse of a sparse convolution of one coordinate."""

    dim = 1


class SparseInverseConv2d(_SparseInverseConv):
    """Inverse of a sparse convolution of two coordinates."""

    dim = 2


class SparseInverseConv3d(_SparseInverseConv):
    """Inverse of a sparse convolution of three coordinates."""

    dim = 3


class SparseInverseConv4d(_SparseInverseConv):
    """Inverse of a sparse convolution of four coordinates."""

    dim = 4
