"""What a whole mesh is, in plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sound(
    vertices: Sequence[Sequence[float]], faces: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """The rows of vertices that are finite, and of faces that have three different ones of these
    and that no face before has in the same order."""
    whole = [i for i, row in enumerate(vertices) if all(map(math.isfinite, row))]
    kept, seen = [], set()
    for i, (a, b, c) in enumerate(faces):
        turned = min((a, b, c), (b, c, a), (c, a, b))
        if len({a, b, c}) == 3 and {a, b, c} <= set(whole) and turned not in seen:
            kept.append(i)
            seen.add(turned)
    return whole, kept
