"""Output shapes of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from permutogeo.compat.spconv.core import ConvAlgo

__all__ = ["ConvAlgo", "get_conv_output_size", "get_deconv_output_size"]


def get_conv_output_size(
    input_size: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """Return the spatial shape of a convolution's output."""
    axes = zip(input_size, kernel_size, stride, padding, dilation, strict=True)
    return [(size + 2 * pad - step * (k - 1) - 1) // move + 1 for size, k, move, pad, step in axes]


def get_deconv_output_size(
    input_size: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> list[int]:
    """Return the spatial shape of a transposed convolution's output."""
    axes = zip(input_size, kernel_size, stride, padding, dilation, output_padding, strict=True)
    return [
        (size - 1) * move - 2 * pad + step * (k - 1) + 1 + more
        for size, k, move, pad, step, more in axes
    ]
