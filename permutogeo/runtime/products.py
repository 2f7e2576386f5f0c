"""Matrix products by the fastest library at hand."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

# Fewer operations are faster in MKL, whose calls cost less. Transposing costs oneDNN more.
_FEWEST_OPERATIONS = 2**21
_FEWEST_TRANSPOSED = 2**23


def multiply(rows: Tensor, matrix: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``rows @ matrix``, by MKL in ``out`` if it is given, or in a new tensor.

    Not recorded by autograd. The choice between the libraries depends on sizes only.

    Args:
        rows: ``[n, C]``.
        matrix: ``[C, C']``.
        out: ``[n, C']``.
    """
    size = rows.shape[0] * matrix.shape[0] * matrix.shape[1]
    if 2 * size >= _FEWEST_OPERATIONS and uses_onednn(rows, size):
        return _onednn_linear()(rows, matrix.t(), None, "none", [], "")  # type: ignore[misc]
    return torch.mm(rows, matrix, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add ``left.t() @ right`` to ``total``, not recorded by autograd."""
    if uses_onednn(left, left.shape[0] * total.numel(), _FEWEST_TRANSPOSED):
        linear = _onednn_linear()
        total.add_(linear(left.t(), right.t(), None, "none", [], ""))  # type: ignore[misc]
    else:
        total.addmm_(left.t(), right)


def uses_onednn(like: Tensor, size: int, fewest: int = _FEWEST_OPERATIONS) -> bool:
    """Return whether a product of ``size`` multiplications is left to oneDNN.

    Args:
        like: A tensor of the operands' type and device.
    """
    if 2 * size < fewest or like.dtype != torch.float32 or like.device.type != "cpu":
        return False
    return _onednn_linear() is not None


@cache
def _onednn_linear() -> torch._ops.OpOverload | None:
    """Return oneDNN's linear layer where it uses wider registers than MKL.

    MKL is limited to AVX2 on processors that are not Intel's. torch calls oneDNN itself for this
    operator in compiled models only.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.enabled:
        return None
    packet = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    return getattr(packet, "default", None)
