"""How much working memory a convolution may take."""

from __future__ import annotations

_bytes = 64 * 2**20


def get_workspace() -> int:
    """Bytes of working memory that a convolution may use."""
    return _bytes


def set_workspace(size: int) -> None:
    """Bound the working memory of convolutions, in bytes.

    They gather the neighbors of some vertices at a time; a smaller bound means more and smaller
    steps. One vertex's neighbors must always fit.
    """
    global _bytes
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"Expected a positive number of bytes (got {size!r})")
    _bytes = size
