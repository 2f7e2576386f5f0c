"""Maximum over the rows at each vertex.

Points that attain the maximum of a vertex share its gradient in equal parts (``share``). As in
torch's ``scatter_reduce`` into zeros, a maximum of zero counts the zero that it replaces.
``attaining`` sums over these points and ``spread`` is its transpose; the derivative of each is the
other, since the points that attain a maximum are piecewise constant.
"""

from __future__ import annotations

from typing import Any

import torch

from permutogeo.kernels import segment_max as kernels
from permutogeo.ops._library import define, ops
from permutogeo.runtime import bridge, memory


def _launch(name: str, size: int, first: tuple, *tensors: torch.Tensor, corners: int) -> Any:
    """Launch a kernel on rows of channels and return its output."""
    like = tensors[0]
    out = memory.empty(size, like.shape[1], dtype=like.dtype, device=like.device)
    inputs = [each.contiguous() for each in tensors]
    device, rows = like.device, bridge.Rows(*inputs, out)
    run = rows.load(kernels.make, kernels.make_gpu, corners, like.dtype, device=device)
    kernel, arguments = getattr(run, name), (*first, *inputs, out)
    if rows.lanes:
        bridge.launch(kernel, size, *arguments, device=device, inner=rows.blocks)
    else:
        owned = kernels.OWNED
        bridge.launch(kernel, -(-size // owned), *arguments, device=device, grain=1024 // owned)
    return out


def _maximum(x, vertex, order, begin):
    # The last vertex stands for absent ones.
    size = begin.shape[0] - 2
    return _launch("maximum", size, (begin, order), x, corners=vertex.shape[1])


def _attaining(term, x, most, vertex, order, begin):
    corners = vertex.shape[1]
    return _launch("attaining", most.shape[0], (begin, order), term, x, most, corners=corners)


def _share(grad, x, most, vertex, order, begin):
    if grad.device.type != "cpu":
        ties = ops.attaining(torch.ones_like(x), x, most, vertex, order, begin)
        return grad / (ties + (most == 0).to(ties.dtype))
    corners = vertex.shape[1]
    return _launch("share", most.shape[0], (begin, order), grad, x, most, corners=corners)


def _spread(part, x, most, vertex, order, begin):
    vertex = vertex.contiguous()
    return _launch("spread", x.shape[0], (vertex,), part, x, most, corners=vertex.shape[1])


def _save_maximum(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    x, *by_vertex = inputs
    ctx.save_for_backward(x, output, *by_vertex)


def _backward_maximum(ctx: Any, grad: torch.Tensor) -> tuple:
    x, most, *by_vertex = ctx.saved_tensors
    x, most = x.detach(), most.detach()
    part = ops.share(grad, x, most, *by_vertex)
    return ops.spread(part, x, most, *by_vertex), None, None, None


def _jvp_maximum(inputs: tuple, tangents: tuple) -> torch.Tensor:
    x, *by_vertex = inputs
    x = x.detach()
    most = ops.segment_max(x, *by_vertex)
    total = ops.attaining(tangents[0], x, most, *by_vertex)
    return ops.share(total, x, most, *by_vertex)


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


segment_max = define(
    "segment_max(Tensor x, Tensor vertex, Tensor order, Tensor begin) -> Tensor",
    _maximum,
    lambda x, vertex, order, begin: x.new_empty(begin.shape[0] - 2, x.shape[1]),
    save=_save_maximum,
    backward=_backward_maximum,
    jvp=_jvp_maximum,
)

attaining = define(
    "attaining(Tensor term, Tensor x, Tensor most, Tensor vertex, Tensor order, Tensor begin)"
    " -> Tensor",
    _attaining,
    lambda term, x, most, vertex, order, begin: torch.empty_like(most),
    save=_save,
    backward=lambda ctx, grad: (ops.spread(grad, *ctx.saved_tensors), *[None] * 5),
    linear=[0],
)

spread = define(
    "spread(Tensor part, Tensor x, Tensor most, Tensor vertex, Tensor order, Tensor begin)"
    " -> Tensor",
    _spread,
    lambda part, x, most, vertex, order, begin: torch.empty_like(x),
    save=_save,
    backward=lambda ctx, grad: (ops.attaining(grad, *ctx.saved_tensors), *[None] * 5),
    linear=[0],
)

share = define(
    "share(Tensor grad, Tensor x, Tensor most, Tensor vertex, Tensor order, Tensor begin)"
    " -> Tensor",
    _share,
    lambda grad, x, most, vertex, order, begin: torch.empty_like(most),
    save=_save,
    backward=lambda ctx, grad: (ops.share(grad, *ctx.saved_tensors), *[None] * 5),
    linear=[0],
)
