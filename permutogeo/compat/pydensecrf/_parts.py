"""Work on rows in parts that stay in a thread's cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from permutogeo import _warp

# Numbers that a thread works on at a time.
_PART = 1 << 18


def in_parts(job: Callable[[int, int], None], count: int, width: int) -> None:
    """Call ``job(first, last)`` for parts of ``range(count)``, on threads where torch uses one.

    Args:
        width: Numbers at each index.
    """
    step = max(1, _PART // max(1, width))
    edges = [*range(0, count, step), count]
    _warp.run([partial(job, a, b) for a, b in pairwise(edges)])
