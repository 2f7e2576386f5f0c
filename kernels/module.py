"""Declaration of kernels: forward only, in one named Warp module per factory call."""

from collections.abc import Callable

import warp as wp

# ``index & NOT_NEGATIVE`` removes Warp's branch for negative indices, which count from the end.
NOT_NEGATIVE = 0x7FFFFFFF


def named(name: str, *key: object) -> wp.Module:
    """Return the Warp module of one factory call."""
    return wp.get_module("_".join(["permutogeo", name, *map(_label, key)]))


def kernel(module: wp.Module) -> Callable[[Callable], wp.Kernel]:
    """Decorator for a kernel of ``module``. Adjoints are written by hand, not generated."""
    return wp.kernel(enable_backward=False, module=module)


def _label(part: object) -> str:
    return part.__name__ if isinstance(part, type) else str(part)
