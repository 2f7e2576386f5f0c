"""Argument checks of the public functions, layers and models.

An error names the argument, what was expected and what was given. ``owner`` is the layer or model
whose class name precedes the message, or ``None`` for a function. Checks that need tensor data are
skipped while a function is being compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

NORMALIZATIONS = (None, "before", "after", "symmetric")
# Larger sizes are mistakes: no tensor could hold the result.
_LARGEST = 2**20
# Graph ids must fit into one word of a code.
_MOST_GRAPHS = 2**62


def fail(owner: Any, sentence: str, kind: type[Exception] = ValueError) -> NoReturn:
    """Raise ``kind``, with the class name of ``owner`` before the sentence."""
    raise kind(sentence if owner is None else f"{type(owner).__name__}: {sentence}")


def prefix_errors(owner: Any, function: Callable, *arguments: Any) -> Any:
    """Call a function; its errors carry the class name of ``owner``."""
    if owner is None or torch.compiler.is_compiling():
        return function(*arguments)
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{type(owner).__name__}: {error}") from None


def check_integer(owner: Any, name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is an integer in ``least .. 2**20``."""
    integer = type(value) is int or isinstance(value, int | np.integer)
    if not integer or value is True or value is False:
        fail(owner, f"Expected '{name}' to be an integer (got {value!r})", TypeError)
    if value < least:
        fail(owner, f"Expected '{name}' of at least {least} (got {value})")
    if value > _LARGEST:
        fail(owner, f"Expected '{name}' of at most {_LARGEST} (got {value})")


def check_choice(owner: Any, name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    # Not `in` alone: True == 1, and a tensor compares element by element.
    if not any(value is choice or (type(value) is str and value == choice) for choice in choices):
        *first, last = (repr(choice) for choice in choices)
        fail(owner, f"Expected '{name}' to be {', '.join(first)} or {last} (got {value!r})")


def check_normalization(owner: Any, normalize: str | None) -> None:
    """Raise unless ``normalize`` is one of the four normalizations."""
    check_choice(owner, "normalize", normalize, NORMALIZATIONS)


def check_matrix(
    owner: Any,
    name: str,
    x: Any,
    *,
    device: torch.device,
    rows: int | None = None,
    channels: int = -1,
    of: str = "points",
) -> None:
    """Raise unless ``x`` is a floating-point matrix on ``device``.

    Args:
        rows: Required number of rows; any if ``None``.
        channels: Required number of columns; any if ``-1``.
        of: What the rows belong to.
    """
    if torch.compiler.is_compiling():
        return
    if not isinstance(x, Tensor):
        fail(owner, f"Expected '{name}' to be a tensor (got {type(x).__name__})", TypeError)
    width = "C" if channels == -1 else channels
    count = "N" if rows is None else rows
    if x.ndim != 2 or channels not in (-1, x.shape[1]):
        fail(owner, f"Expected '{name}' of shape [{count}, {width}] (got {list(x.shape)})")
    if rows is not None and x.shape[0] != rows:
        fail(
            owner,
            f"Expected '{name}' of shape [{rows}, {width}], one row for each of the {rows} {of} "
            f"(got {list(x.shape)})",
        )
    if not x.dtype.is_floating_point:
        fail(owner, f"Expected '{name}' of a floating-point type (got {x.dtype})", TypeError)
    if x.device != device:
        fail(
            owner,
            f"Expected '{name}' on {device} like the lattice (got {x.device}); move one of them "
            "with .to()",
        )


def check_parameters(owner: torch.nn.Module, x: Tensor, what: str = "input") -> None:
    """Raise if the parameters of ``owner`` are on another device than ``x``."""
    if torch.compiler.is_dynamo_compiling():
        return
    device = x.device
    for parameter in _parameters_of(owner):
        if parameter.device != device:
            _refuse_device(owner, device, what)


def _parameters_of(owner: torch.nn.Module) -> list[torch.nn.Parameter]:
    """``list(owner.parameters())``, whose generators cost as much as a small layer."""
    found: list[torch.nn.Parameter] = []
    modules: list[torch.nn.Module] = [owner]
    for module in modules:  # grows
        parameters, children = module._parameters, module._modules
        for name in parameters:
            parameter = parameters[name]
            if parameter is not None:
                found += [parameter]
        for name in children:
            child = children[name]
            if child is not None:
                modules += [child]
    return found


def _refuse_device(owner: torch.nn.Module, device: torch.device, what: str) -> NoReturn:
    name, parameter = next(each for each in owner.named_parameters() if each[1].device != device)
    fail(
        owner,
        f"Expected {what} on {parameter.device} like the parameter '{name}' "
        f"(got {device}); move one of them with .to()",
    )


def check_parameter_dtype(owner: torch.nn.Module, name: str, x: Tensor) -> None:
    """Raise unless ``x`` has the type of the parameters of ``owner``; autocast casts by itself."""
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type):
        return
    dtype = _parameters_of(owner)[0].dtype
    if x.dtype != dtype:
        fail(
            owner,
            f"Expected '{name}' of {dtype} like the parameters (got {x.dtype}); convert one of "
            "them with .to()",
            TypeError,
        )


def check_not_vmapped(owner: Any, x: Any) -> None:
    """Raise under ``torch.vmap``, for layers that depend on the data of their input."""
    if torch.compiler.is_compiling() or not isinstance(x, Tensor):
        return
    if torch._C._functorch.is_batchedtensor(x):
        fail(
            owner,
            "Expected a call outside of torch.vmap, which cannot depend on data (give several "
            "graphs in one call, with their batch)",
            RuntimeError,
        )


def check_finite(owner: Any, name: str, x: Tensor, advice: str = "") -> None:
    """Raise if a row of the matrix ``x`` holds NaN or infinity.

    Not while a CUDA graph is captured, when nothing can be read.

    Args:
        advice: Appended to the message.
    """
    if torch.compiler.is_compiling():
        return
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    # A sum is the fastest test; the search for the row follows only on failure.
    if bool(x.detach().sum().isfinite()):
        return
    bad = (~x.detach().isfinite()).any(1).nonzero()
    if len(bad):
        row = int(bad[0])
        fail(owner, f"Expected finite '{name}' (got {x[row].tolist()} in row {row}){advice}")


def check_points(name: str, feature: Any, batch_name: str, batch: Any) -> Tensor:
    """Raise unless ``feature`` and ``batch`` describe points.

    Returns:
        The features as float32, or float64 if they are.
    """
    if not isinstance(feature, Tensor):
        raise TypeError(f"Expected '{name}' to be a tensor (got {type(feature).__name__})")
    if feature.dim() != 2 or feature.shape[1] < 1:
        raise ValueError(f"Expected '{name}' of shape [N, d] (got {list(feature.shape)})")
    if not feature.is_floating_point():
        raise TypeError(f"Expected '{name}' of a floating-point type (got {feature.dtype})")
    if batch is not None:
        check_batch(name, feature, batch_name, batch)
    return feature if feature.dtype == torch.float64 else feature.float()


def check_has_data(feature: Tensor) -> None:
    """Raise if ``feature`` is on the meta device."""
    if feature.device.type == "meta":
        raise ValueError("Expected 'feature' with data to build a lattice from (got meta)")


def check_batch(name: str, x: Tensor, batch_name: str, batch: Any) -> None:
    """Raise unless ``batch`` holds a graph id for each row of ``x``."""
    if not isinstance(batch, Tensor) or batch.dtype != torch.int64:
        kind = batch.dtype if isinstance(batch, Tensor) else type(batch).__name__
        raise TypeError(f"Expected '{batch_name}' to be an int64 tensor (got {kind})")
    if batch.dim() != 1 or batch.shape[0] != x.shape[0]:
        raise ValueError(
            f"Expected '{batch_name}' of shape [{x.shape[0]}], one entry for each row of "
            f"'{name}' (got {list(batch.shape)})"
        )
    if batch.device != x.device:
        raise ValueError(
            f"Expected '{batch_name}' on the device of '{name}', {x.device} (got {batch.device})"
        )


def check_graph_ids(name: str, batch: Tensor, bounds: tuple[int, int] | None = None) -> int:
    """Raise for negative or huge graph ids.

    Args:
        bounds: Smallest and largest id, if they are known.

    Returns:
        The number of graphs.
    """
    least, most = bounds or (int(bound) for bound in batch.aminmax())
    if least < 0 or most >= _MOST_GRAPHS:
        row = int((batch < 0 if least < 0 else batch >= _MOST_GRAPHS).nonzero()[0])
        expected = "without negative entries" if least < 0 else "below 2**62"
        raise ValueError(f"Expected '{name}' {expected} (got {int(batch[row])} in row {row})")
    return most + 1


def check_same_space(name: str, feature: Tensor, like: Tensor) -> None:
    """Raise unless ``feature`` has the dimension and the device of the lattice's points."""
    if feature.shape[1] != like.shape[1]:
        raise ValueError(
            f"Expected '{name}' of shape [N, {like.shape[1]}] like the lattice's other points "
            f"(got {list(feature.shape)})"
        )
    if feature.device != like.device:
        raise ValueError(f"Expected '{name}' on {like.device} (got {feature.device})")


def check_pair(name: str, value: Any) -> tuple[Any, Any]:
    """Raise unless ``value`` is a pair, for input and output points."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        got = f"{len(value)} items" if isinstance(value, tuple | list) else type(value).__name__
        raise ValueError(f"Expected '{name}' to be a pair, for input and output points (got {got})")
    return value[0], value[1]


def join_batches(batch_src: Tensor | None, batch_dst: Tensor | None) -> Tensor | None:
    """Return both batch vectors in one, ``None`` for none; raise if only one is given."""
    if batch_src is None and batch_dst is None:
        return None
    if batch_src is None or batch_dst is None:
        missing = "batch_src" if batch_src is None else "batch_dst"
        raise ValueError(f"Expected both 'batch_src' and 'batch_dst', or neither (no '{missing}')")
    return torch.cat([batch_src, batch_dst])


def check_taps(taps: Sequence[float]) -> tuple[float, ...]:
    """Raise unless ``taps`` are symmetric, finite, not negative and of odd length."""
    taps = tuple(float(tap) for tap in taps)
    if len(taps) % 2 == 0 or taps != taps[::-1] or not 0 < sum(taps) < math.inf or min(taps) < 0:
        raise ValueError(
            f"Expected 'taps' of odd length, symmetric, finite and not negative (got {list(taps)})"
        )
    if not 1e-6 <= max(taps) <= 1e6:  # powers of dim + 1 would overflow
        raise ValueError(
            f"Expected 'taps' of which the largest is between 1e-6 and 1e6: only their ratios "
            f"matter (got {list(taps)})"
        )
    return taps


def check_filter(weight: Tensor, taps: int, values: Tensor, groups: int, shared: bool) -> None:
    """Raise unless a filter bank of ``taps`` taps fits the values."""
    channels = values.shape[1]
    if groups != 1:
        check_integer(None, "groups", groups)
    if channels % groups:
        raise ValueError(f"Expected 'groups' to divide the {channels} channels (got {groups})")
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise TypeError(
            f"Expected 'filter_weight' to be a floating-point tensor "
            f"(got {getattr(weight, 'dtype', type(weight).__name__)})"
        )
    if shared:
        expected, right = f"[{taps}]", weight.shape == (taps,)
    else:
        expected = f"[{taps}, {channels // groups}, C_out]"
        right = weight.dim() == 3 and weight.shape[:2] == (taps, channels // groups)
    if not right:
        raise ValueError(f"Expected 'filter_weight' of shape {expected} (got {list(weight.shape)})")
    if not shared and weight.shape[2] % groups:
        raise ValueError(
            f"Expected 'groups' to divide the {weight.shape[2]} output channels (got {groups})"
        )
    if weight.device != values.device:
        raise ValueError(f"Expected 'filter_weight' on {values.device} (got {weight.device})")


def check_scalar(owner: Any, name: str, value: Any, below: float = math.inf) -> Any:
    """Raise unless ``value`` is a number or a scalar tensor in 0 .. ``below``, both excluded."""
    scalar = isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()
    if not scalar and (not isinstance(value, int | float) or isinstance(value, bool)):
        fail(owner, f"Expected '{name}' to be a number (got {value!r})", TypeError)
    number = float(value.detach()) if isinstance(value, Tensor) else float(value)
    if not 0 < number < below:
        fail(owner, f"Expected '{name}' greater than 0 and less than {below:g} (got {number:g})")
    return value


def check_confidence(
    target: Tensor, confidence: Any, hard: Any, batch: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Raise unless ``confidence`` weighs the rows of ``target``, with something known in each
    graph.

    Returns:
        The confidence ``[N, 1]`` or ``[N, C]``, 0 at the points of ``hard``, and where the target
        is used, of the same shape.
    """
    count, channels = target.shape
    if confidence is None:
        confidence = target.new_ones(count, 1)
    if not isinstance(confidence, Tensor) or not confidence.is_floating_point():
        kind = confidence.dtype if isinstance(confidence, Tensor) else type(confidence).__name__
        raise TypeError(f"Expected 'confidence' to be a floating-point tensor (got {kind})")
    if confidence.device != target.device:
        raise ValueError(
            f"Expected 'confidence' on {target.device} like 'target' (got {confidence.device})"
        )
    if confidence.shape not in ((count,), (count, 1), (count, channels)):
        raise ValueError(
            f"Expected 'confidence' of shape [{count}] or [{count}, {channels}] "
            f"(got {list(confidence.shape)})"
        )
    confidence = confidence[:, None] if confidence.dim() == 1 else confidence
    bad = ~((confidence >= 0) & confidence.isfinite()).all(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise ValueError(
            f"Expected 'confidence' of finite numbers of at least 0 "
            f"(got {confidence[row].tolist()} in row {row})"
        )
    known = confidence > 0
    if hard is not None:
        if not isinstance(hard, Tensor) or hard.dtype != torch.bool or hard.shape != (count,):
            got = f"{hard.dtype} {list(hard.shape)}" if isinstance(hard, Tensor) else hard
            raise ValueError(f"Expected 'hard' to be a bool tensor of shape [{count}] (got {got})")
        confidence = torch.where(hard[:, None], 0.0, confidence)
        known = known | hard[:, None]
    check_finite(None, "target", torch.where(known, target, 0.0))
    _check_known(known.all(1), batch)
    return confidence, known


def _check_known(known: Tensor, batch: Tensor | None) -> None:
    """Raise unless each graph has a known row; no points at all are fine."""
    if len(known) == 0:
        return
    if batch is None:
        if not bool(known.any()):
            raise ValueError("Expected at least one known point (got a confidence of 0 everywhere)")
        return
    graphs, row = batch.unique(return_inverse=True)
    total = torch.zeros_like(graphs).index_add(0, row, known.to(graphs.dtype))
    if bool((total == 0).any()):
        graph = int(graphs[int((total == 0).nonzero()[0])])
        raise ValueError(f"Expected a known point in each graph (got none in graph {graph})")
