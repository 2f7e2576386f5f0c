"""Learning rate schedules: functions from the progress of a run in [0, 1] to a factor in [0, 1].

They have no state, so that a resumed run needs only its progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[float], float]


def constant(progress: float) -> float:
    """Return 1."""
    return 1.0


def cosine(progress: float) -> float:
    """Return the factor of cosine annealing from 1 to 0, after `Loshchilov and Hutter (2017)
    <https://arxiv.org/abs/1608.03983>`_.

    Example:
        >>> from permutogeo.train import cosine
        >>> [round(cosine(t), 3) for t in (0.0, 0.5, 1.0)]
        [1.0, 0.5, 0.0]
    """
    return (1 + math.cos(math.pi * min(progress, 1.0))) / 2


def one_cycle(progress: float) -> float:
    """Return the factor of a linear warm-up over the first tenth, then cosine annealing."""
    return 0.04 + 9.6 * progress if progress < 0.1 else cosine((progress - 0.1) / 0.9)


def drops(*at: float, factor: float = 0.1) -> Schedule:
    """Return a step schedule that multiplies by ``factor`` at each given progress."""
    return lambda progress: factor ** sum(progress >= each for each in at)


def resolve_schedule(schedule: str | Schedule | None) -> Schedule:
    """Return the schedule of a name; a function is returned unchanged."""
    named = {"constant": constant, "cosine": cosine, "one_cycle": one_cycle}
    if schedule is None:
        return constant
    if callable(schedule):
        return schedule
    if schedule not in named:
        expected = f"'schedule' in {', '.join(named)}, or a function"
        raise ValueError(f"Expected {expected} (got {schedule!r})")
    return named[schedule]
