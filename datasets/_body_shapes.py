"""Random shapes for a :class:`BodyModel` with the names of MakeHuman; others are left alone."""

from __future__ import annotations

import numpy as np

from permutogeo.datasets._body_model import BodyModel

Random = np.random.Generator

# Endings of targets that undo each other.
_OPPOSITES = {"incr": "decr", "out": "in", "up": "down", "forward": "backward"}
_ETHNIC = ("african", "asian", "caucasian")


def _between(value: float, low: str, middle: str, high: str) -> dict[str, float]:
    """Shares of three words that sum to 1, by a value in [-1, 1]."""
    return {low: max(-value, 0), middle: 1 - abs(value), high: max(value, 0)}


def random_shape(model: BodyModel, rng: Random) -> dict[str, float]:
    """The weight of each target: gender, age, origin, muscle, weight, height, and details."""
    male = float(np.clip(rng.normal(rng.integers(2), 0.15), 0, 1))
    old = float(rng.beta(1, 2))
    share = {"male": male, "female": 1 - male, "old": old, "young": 1 - old, "universal": 1.0}
    share |= dict(zip(_ETHNIC, rng.dirichlet([0.6] * 3).tolist(), strict=True))
    muscle, fat = np.clip(rng.normal(0, 0.45, 2), -1, 1)
    share |= _between(muscle, "minmuscle", "averagemuscle", "maxmuscle")
    share |= _between(fat, "minweight", "averageweight", "maxweight")
    height = float(np.clip(rng.normal(0, 0.12), -0.3, 0.3))
    share |= _between(height, "minheight", "", "maxheight")
    share |= _between(float(rng.uniform(-1, 1)), "uncommonproportions", "", "idealproportions")
    weights = {name: _macro(name, share) for name in model.targets}
    for name, amount in _details(model, rng).items():
        gender = share["female" if "-fem-" in name else "male"] if "bodyshapes" in name else 1.0
        weights[name] = amount * gender
    return weights


def _macro(name: str, share: dict[str, float]) -> float:
    """The product of the shares that a target's name lists; 0 for another kind of name."""
    words = name.split("-")
    if not all(word in share for word in words):
        return 0.0
    if words[0] in ("male", "female"):  # heights and proportions exist for the average body alone
        words = [words[0], words[-1]]
    return float(np.prod([share[word] for word in words]))


def _details(model: BodyModel, rng: Random) -> dict[str, float]:
    """Small weights for a few local targets, alike on both sides of the body."""
    weights = {}
    for name in model.targets:
        stem, _, ending = name.rpartition("-")
        if ending in _OPPOSITES and not stem.startswith("r-"):
            amount = rng.uniform(-0.5, 0.5) if rng.random() < 0.2 else 0.0
            end = ending if amount > 0 else _OPPOSITES[ending]
            for side in ("l-", "r-") if stem.startswith("l-") else ("",):
                weights[f"{side}{stem.removeprefix('l-')}-{end}"] = abs(amount)
    kinds = [name for name in model.targets if name.startswith("bodyshapes-")]
    for name in rng.choice(kinds, 4, replace=False).tolist() if len(kinds) > 3 else []:
        weights[name] = rng.uniform(0, 0.6)
    return {name: weight for name, weight in weights.items() if name in model.targets}
