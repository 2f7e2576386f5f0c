"""Learning rates over a run, as factors in [0, 1] of its progress in [0, 1].

They have no state: a run that is continued finds its learning rate by where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[float], float]


def constant(progress: float) -> float:
    """The same all the time."""
    return 1.0


def cosine(progress: float) -> float:
    """From 1 to 0 along half a wave (`Loshchilov and Hutter <https://arxiv.org/abs/1608.03983>`_).

    Example:
        >>> from permutogeo.train import cosine
        >>> [round(cosine(t), 3) for t in (0.0, 0.5, 1.0)]
        [1.0, 0.5, 0.0]
    """
    return (1 + math.cos(math.pi * min(progress, 1.0))) / 2


def one_cycle(progress: float) -> float:
    """Up in the first tenth, and down again along half a wave."""
    return 0.04 + 9.6 * progress if progress < 0.1 else cosine((progress - 0.1) / 0.9)


def drops(*at: float, factor: float = 0.1) -> Schedule:
    """Times ``factor`` from each of the given progresses on."""
    return lambda progress: factor ** sum(progress >= each for each in at)


def schedule_of(schedule: str | Schedule | None) -> Schedule:
    """The schedule of a name; a function stays what it is."""
    named = {"constant": constant, "cosine": cosine, "one_cycle": one_cycle}
    if schedule is None:
        return constant
    if callable(schedule):
        return schedule
    if schedule not in named:
        expected = f"'schedule' in {', '.join(named)}, or a function"
        raise ValueError(f"Expected {expected} (got {schedule!r})")
    return named[schedule]
