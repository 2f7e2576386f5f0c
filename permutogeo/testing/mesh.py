"""Reference for mesh repair, in plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sound(
    vertices: Sequence[Sequence[float]], faces: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """Return the indices of finite vertices and of valid faces.

    A face is valid if its corners are distinct finite vertices and no earlier face has the same
    corners in the same cyclic order.
    """
    whole = [i for i, row in enumerate(vertices) if all(map(math.isfinite, row))]
    kept, seen = [], set()
    for i, (a, b, c) in enumerate(faces):
        turned = min((a, b, c), (b, c, a), (c, a, b))
        if len({a, b, c}) == 3 and {a, b, c} <= set(whole) and turned not in seen:
            kept.append(i)
            seen.add(turned)
    return whole, kept
