"""Search for settings by a validation score, and splits for it."""

from __future__ import annotations

import csv
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Subset

from permutogeo.train.log import write_csv
from permutogeo.train.process_group import is_main_process

Objective = Callable[..., float]


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes:
        best: The best settings.
        score: Their score.
        trials: All evaluated settings, each with its ``score``.
    """

    best: dict[str, float]
    score: float
    trials: list[dict[str, float]]


@dataclass
class _Trials:
    """Evaluated trials, cached in memory and in a CSV log."""

    objective: Objective
    maximize: bool
    log: Path | None
    done: dict[tuple[tuple[str, float], ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.log is not None and self.log.is_file():
            with open(self.log, newline="") as file:
                for row in csv.DictReader(file):
                    score = float(row.pop("score"))
                    self.done[_key({name: float(value) for name, value in row.items()})] = score

    def __call__(self, settings: Mapping[str, float]) -> float:
        key = _key(settings)
        if key not in self.done:
            try:
                self.done[key] = float(self.objective(**settings))
            except FloatingPointError:  # a learning rate too high
                self.done[key] = math.nan
            if self.log is not None and is_main_process():
                write_csv(self._rows(), self.log)
        return self.rank(self.done[key])

    def rank(self, score: float) -> float:
        """Return a key to minimize."""
        if math.isnan(score):
            return math.inf
        return -score if self.maximize else score

    def _rows(self) -> list[dict[str, float]]:
        return [{**dict(key), "score": score} for key, score in self.done.items()]

    def result(self) -> SearchResult:
        """Return the best of all trials, the first of several equal ones."""
        rows = self._rows()
        best = min(rows, key=lambda row: self.rank(row["score"]))
        if math.isinf(self.rank(best["score"])):
            raise ValueError(f"Expected a finite score (got none in {len(rows)} trials)")
        settings = {name: value for name, value in best.items() if name != "score"}
        return SearchResult(settings, best["score"], rows)


def _key(settings: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, float(value)) for name, value in settings.items()))


def _trials(
    objective: Objective, maximize: bool, log: str | os.PathLike[str] | None
) -> _Trials:  # fmt: skip
    return _Trials(objective, maximize, None if log is None else Path(log))


def grid_search(
    objective: Objective,
    values: Mapping[str, Sequence[float]],
    maximize: bool = False,
    log: str | os.PathLike[str] | None = None,
) -> SearchResult:
    """Evaluate all combinations of values.

    Args:
        objective: Called with one value per name as keyword arguments; returns a score to
            minimize. NaN counts as the worst score, and so does a :class:`FloatingPointError`,
            which :meth:`Trainer.fit` raises if training diverges.
        values: The values to try for each name.
        maximize: Whether larger scores are better.
        log: CSV file of the trials; trials found in it are not repeated.

    Example:
        >>> from permutogeo.train import grid_search
        >>> grid_search(lambda lr: (lr - 0.2) ** 2, {"lr": [0.01, 0.1, 1.0]}).best
        {'lr': 0.1}
    """
    if not values or not all(len(each) for each in values.values()):
        raise ValueError(f"Expected values to try for each name (got {dict(values)})")
    trials = _trials(objective, maximize, log)
    for combination in itertools.product(*values.values()):
        trials(dict(zip(values, combination, strict=True)))
    return trials.result()


def scale_search(
    objective: Objective,
    start: Mapping[str, float],
    factor: float = 2.0,
    levels: int = 3,
    max_trials: int = 100,
    maximize: bool = False,
    log: str | os.PathLike[str] | None = None,
) -> SearchResult:
    """Coordinate search over positive settings, by factors that shrink.

    Args:
        objective: As for :func:`grid_search`.
        start: The initial settings.
        factor: Factor of the first level; each further level takes its square root.
        levels: Number of levels.
        max_trials: No further round over the settings starts after this number of trials; a round
            that has started is finished.
        maximize: Whether larger scores are better.
        log: CSV file of the trials; trials found in it are not repeated.

    Example:
        >>> from permutogeo.train import scale_search
        >>> scale_search(lambda a, b: abs(a - 8) + abs(b - 1), {"a": 1.0, "b": 1.0}).best
        {'a': 8.0, 'b': 1.0}
    """
    if not start or min(start.values()) <= 0 or factor <= 1 or levels < 1:
        raise ValueError(
            f"Expected positive settings, a factor above 1 and at least one level (got "
            f"{dict(start)}, {factor}, {levels})"
        )
    trials = _trials(objective, maximize, log)
    here = {name: float(value) for name, value in start.items()}
    score = trials(here)
    for level in range(levels):
        better = True
        while better and len(trials.done) < max_trials:
            better = False
            for there in _around(here, factor ** (0.5**level)):
                if trials(there) < score:
                    here, score, better = there, trials(there), True
                    break
    return trials.result()


def _around(settings: dict[str, float], factor: float) -> Iterator[dict[str, float]]:
    for name in settings:
        for each in (factor, 1 / factor):
            # Rounded, so that a step forward and back gives the same trial.
            yield {**settings, name: float(f"{settings[name] * each:.6g}")}


def hold_out(dataset: Any, fraction: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """Split a dataset at random into a training and a validation part.

    Example:
        >>> from permutogeo.train import hold_out
        >>> [len(part) for part in hold_out(range(10), 0.3)]
        [7, 3]
    """
    count = len(dataset)
    held = round(fraction * count)
    if not 0 < held < count:
        raise ValueError(
            f"Expected a 'fraction' that leaves both parts of {count} elements non-empty "
            f"(got {fraction})"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    parts = sorted(order[held:]), sorted(order[:held])
    if hasattr(dataset, "index_select"):  # PyG datasets
        return dataset.index_select(parts[0]), dataset.index_select(parts[1])
    return Subset(dataset, parts[0]), Subset(dataset, parts[1])
