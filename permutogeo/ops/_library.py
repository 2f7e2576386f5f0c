"""How an operator is declared to torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("permutogeo", "DEF")


def define(
    schema: str,
    impl: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    save: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Any:
    """Register an operator and return it.

    Args:
        schema: Its name and signature.
        impl: What it does, on any device.
        fake: The shapes of what it returns.
        save: Autograd's ``setup_context(ctx, inputs, output)``.
        backward: Its gradient, in terms of other operators.
    """
    name = schema.partition("(")[0]
    qualified = f"permutogeo::{name}"
    _library.define(schema)
    _library.impl(name, impl, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, fake, lib=_library)
    if backward is not None:
        torch.library.register_autograd(qualified, backward, setup_context=save, lib=_library)
    for device in ("cpu", "cuda"):
        torch.library.register_autocast(qualified, device, torch.float32, lib=_library)
    return getattr(torch.ops.permutogeo, name).default
