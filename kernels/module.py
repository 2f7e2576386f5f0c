"""How a factory declares its kernels: forward only, in one named Warp module."""

from collections.abc import Callable

import warp as wp

# ``index & NOT_NEGATIVE`` spares the test for negative indices, which Warp counts from the end.
NOT_NEGATIVE = 0x7FFFFFFF


def named(name: str, *key: object) -> wp.Module:
    """The Warp module that holds the kernels of one factory call."""
    return wp.get_module("_".join(["permutogeo", name, *map(_label, key)]))


def kernel(module: wp.Module) -> Callable[[Callable], wp.Kernel]:
    """Decorator: a kernel of ``module``. Adjoints are written by hand, never generated."""
    return wp.kernel(enable_backward=False, module=module)


def _label(part: object) -> str:
    return part.__name__ if isinstance(part, type) else str(part)
