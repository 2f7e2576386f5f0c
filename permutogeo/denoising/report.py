"""Report of a denoiser: noise estimate, displacement, parts left alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# Displacements below this many edge lengths count as none.
STILL = 1e-6


@dataclass(frozen=True)
class DenoiseReport:
    """Summary of one call of :func:`permutogeo.denoising.denoise`.

    Args:
        method: The method.
        noise: Estimated standard deviation of the noise in mean edge lengths, an upper bound if the
            surface has fine detail; ``None`` if the method does not estimate it.
        moved: Mean displacement of the vertices in mean edge lengths.
        largest: Largest displacement in mean edge lengths.
        parts: Number of connected parts.
        left_alone: Number of parts that were returned as they came.
        reasons: Why they were, most frequent reason first.

    Example:
        >>> print(DenoiseReport("learned", 0.21, 0.16, 0.7))
        noise 0.21 edges, moved 0.16 (at most 0.7)
        >>> print(DenoiseReport("learned", 0.004, 0.0, 0.0, 1, 1, ("no noise",)))
        noise 0.004 edges, left alone (no noise)
    """

    method: str
    noise: float | None
    moved: float
    largest: float
    parts: int = 1
    left_alone: int = 0
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [] if self.noise is None else [f"noise {self.noise:.2g} edges"]
        if self.moved > STILL:
            words.append(f"moved {self.moved:.2g} (at most {self.largest:.2g})")
        if self.left_alone:
            which = "" if self.parts == 1 else f"{self.left_alone} of {self.parts} parts "
            words.append(f"{which}left alone ({', '.join(self.reasons)})")
        elif self.moved <= STILL:
            words.append("nothing moved")
        return ", ".join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a table for JSON."""
        return asdict(self)
