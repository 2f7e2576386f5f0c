"""What frozen objects work out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch


def once(cache: dict, name: Hashable, make: Callable[[], Any]) -> Any:
    """The entry ``name``, made on first use.

    It is made outside of inference mode, whose tensors could not be used in training later.
    """
    if name not in cache:
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            with torch.inference_mode(False):
                cache[name] = make()
        else:
            cache[name] = make()
    return cache[name]
