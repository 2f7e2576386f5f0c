"""Matrix products by the fastest library at hand."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

# Fewer operations are faster in MKL, whose calls cost less. Transposing costs oneDNN more.
_FEWEST_OPERATIONS = 2**21
_FEWEST_TRANSPOSED = 2**23


def multiply(rows: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
    """Return ``rows @ matrix.t()``, in ``out`` or in a tensor of its own.

    Not recorded by autograd. The choice between the libraries depends on sizes only.

    Args:
        rows: ``[n, C]``.
        matrix: ``[C', C]``.
        out: ``[n, C']``.
    """
    linear = _onednn_linear()
    if linear is not None and _pays(rows, out.numel() * rows.shape[1], _FEWEST_OPERATIONS):
        return linear(rows, matrix, None, "none", [], "")
    return torch.mm(rows, matrix.t(), out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add ``left.t() @ right`` to ``total``, not recorded by autograd."""
    linear = _onednn_linear()
    if linear is not None and _pays(left, total.numel() * len(left), _FEWEST_TRANSPOSED):
        total.add_(linear(left.t(), right.t(), None, "none", [], ""))
    else:
        total.addmm_(left.t(), right)


def _pays(rows: Tensor, products: int, fewest: int) -> bool:
    return 2 * products >= fewest and rows.dtype == torch.float32 and rows.device.type == "cpu"


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
