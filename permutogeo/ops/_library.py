"""Registration of operators with torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import SimpleNamespace
from typing import Any

import torch
from torch.autograd import forward_ad

_library = torch.library.Library("permutogeo", "DEF")
# Functions that hide an implementation from torch.compile, one for each operator.
_hide: list[Callable[[], None]] = []

_PLAIN = {torch.Tensor, torch.nn.Parameter, type(None), int, float, bool, str, list, tuple}
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
# torch.func.vjp saves wrapped tensors, of integers too, which are used when no transform is active.
_may_be_wrapped = False
_has_functorch = torch._C._are_functorch_transforms_active
_num_function_modes = torch._C._len_torch_function_stack
_num_dispatch_modes = torch._C._len_torch_dispatch_stack
_dynamo_callback = getattr(
    torch._C._dynamo.eval_frame, "get_eval_frame_callback", lambda: "not known in old versions"
)
_any_requires_grad = torch._C._any_requires_grad
_has_profiler = torch.autograd._profiler_enabled
_has_autocast = torch._C._is_any_autocast_enabled

# The operators by name, for formulas that refer to each other.
ops = SimpleNamespace()


def define(
    schema: str,
    impl: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    save: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
    linear: Sequence[int] = (),
    jvp: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Register ``torch.ops.permutogeo.<name>`` and return a function that calls it.

    Args:
        schema: Name and signature.
        impl: Implementation, on any device.
        fake: Returns empty tensors of the output's shapes and types.
        save: Autograd's ``setup_context(ctx, inputs, output)``.
        backward: Gradient, in terms of other operators.
        linear: Positions of the arguments in each of which the operator is linear; its forward-mode
            derivative is the sum of the operator with one of them replaced by its tangent.
        jvp: Forward-mode derivative ``jvp(inputs, tangents)`` of any other operator.
    """
    name = schema.partition("(")[0]
    qualified = f"permutogeo::{name}"
    _library.define(schema)
    registered, hide, hidden = _hide_from_dynamo(impl)
    _hide.append(hide)
    _library.impl(name, registered, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, fake, lib=_library)
    if backward is not None:
        torch.library.register_autograd(qualified, backward, setup_context=save, lib=_library)
    for device in ("cpu", "cuda"):
        torch.library.register_autocast(qualified, device, torch.float32, lib=_library)
    op = getattr(torch.ops.permutogeo, name).default
    transformed = eager = None
    if backward is not None:
        assert save is not None
        transformed = _transformable(name, op, save, backward, jvp or _multilinear(name, linear))
        eager = _eager(name, impl, save, backward)
    call = _entry(name, op, impl, eager, transformed, hidden)
    setattr(ops, name, call)
    return call


def _hide_from_dynamo(
    impl: Callable[..., Any],
) -> tuple[Callable[..., Any], Callable[[], None], list[Callable[..., Any]]]:
    """Keep ``torch.compile`` from tracing an implementation, which takes addresses of tensors.

    After a graph break, operators run while Dynamo traces every Python frame.

    Returns:
        The implementation to register, a function that hides it before a first call under Dynamo
        would have to, and a list that is empty until then.
    """
    hidden: list[Callable[..., Any]] = []

    @wraps(impl)
    def call(*args: Any) -> Any:
        # Importing Dynamo takes seconds and is left to torch.compile.
        if "torch._dynamo" not in sys.modules:
            return impl(*args)
        if not hidden:
            hide()
        return hidden[0](*args)

    def hide() -> None:
        if not hidden and "torch._dynamo" in sys.modules:
            from torch._dynamo.decorators import skip

            skip(call)  # and with it those of all operators, which share its code
            hidden.append(torch.compiler.disable(impl))

    return call, hide, hidden


def _multilinear(name: str, linear: Sequence[int]) -> Callable[..., Any]:
    """Return the forward-mode derivative of an operator that is linear in some arguments."""

    def jvp(inputs: tuple, tangents: tuple) -> Any:
        terms = []
        for position in linear:
            if tangents[position] is not None:
                changed = (*inputs[:position], tangents[position], *inputs[position + 1 :])
                terms.append(getattr(ops, name)(*changed))
        return sum(terms[1:], terms[0]) if terms else None

    return jvp


def is_plain(*args: Any) -> bool:
    """Return whether arguments are ordinary tensors and values, outside of transforms, modes,
    autocast, profiling and compilation, so that torch's dispatcher may be skipped."""
    global _may_be_wrapped
    if torch.compiler.is_dynamo_compiling():
        return False
    if _has_functorch():
        _may_be_wrapped = True
        return False
    if (
        forward_ad._current_level >= 0
        or _num_function_modes()
        or _num_dispatch_modes()
        or _dynamo_callback() is not None
        or _has_profiler()
        or _has_autocast()
    ):
        return False
    for arg in args:
        kind = type(arg)
        if kind not in _PLAIN:
            return False
        if _may_be_wrapped and kind is torch.Tensor and _is_wrapped(arg):
            return False
    return True


def _entry(
    name: str,
    op: Any,
    impl: Any,
    eager: Any,
    transformed: Any,
    hidden: list,
) -> Callable[..., Any]:
    """Return the function that calls an operator.

    Plain tensors skip torch's dispatcher, which costs as much as a small kernel.
    """

    def call(*args: Any) -> Any:
        if is_plain(*args):
            if not hidden and "torch._dynamo" in sys.modules:
                for each in _hide:  # a compiled function may call other operators first
                    each()
            if eager is not None and torch.is_grad_enabled() and _any_requires_grad(*args):
                return eager(*args)
            return impl(*args)
        if torch.compiler.is_compiling() or transformed is None:
            return op(*args)
        transforms = _has_functorch() or forward_ad._current_level >= 0
        return transformed(*args) if transforms else op(*args)

    call.__name__ = call.__qualname__ = name
    # Dynamo counts recompilations by code object: shared, eight operators would reach its limit.
    call.__code__ = call.__code__.replace(co_name=name)
    return call


def _eager(
    name: str, impl: Callable[..., Any], save: Callable[..., None], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that records the gradient of an operator on plain tensors."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            output = impl(*args)
            save(ctx, args, output)
            return output

    Function.__name__ = f"permutogeo_{name}"
    Function.backward = staticmethod(backward)  # type: ignore[method-assign]
    # The base class's: torch's own looks for transforms, which the caller has excluded.
    return super(torch.autograd.Function, Function).apply


def _transformable(
    name: str, op: Any, save: Callable[..., None], backward: Callable[..., Any], jvp: Any
) -> Callable[..., Any]:
    """Return a function that calls ``op`` under ``torch.func`` and forward-mode autograd.

    ``register_autograd`` knows neither: its operators drop tangents and refuse ``torch.func.grad``.
    """

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(*args: Any) -> Any:
            return op(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            save(ctx, inputs, output)
            ctx.inputs = inputs if forward_ad._current_level >= 0 else None

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return backward(ctx, *grads)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            return jvp(ctx.inputs, tangents)

        @staticmethod
        def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
            return _loop(name, getattr(ops, name), info.batch_size, in_dims, args)

    Function.__name__ = f"permutogeo_{name}"
    return Function.apply


def _loop(name: str, call: Any, size: int, in_dims: tuple, args: tuple) -> Any:
    """Call an operator for each element of a batch, as ``vmap`` does without a batching rule."""

    def element(arg: Any, dim: Any, i: int) -> Any:
        return arg.select(dim, i) if isinstance(arg, torch.Tensor) and dim is not None else arg

    pairs = list(zip(args, in_dims, strict=True))
    rows = [[element(arg, dim, i) for arg, dim in pairs] for i in range(size)]
    results = [call(*row) for row in rows]
    try:
        if isinstance(results[0], tuple):
            return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])
        return torch.stack(results), 0
    except RuntimeError:
        raise ValueError(
            f"Expected results of equal size under vmap (got lattices of different sizes from "
            f"'{name}'); call it for each element instead"
        ) from None
