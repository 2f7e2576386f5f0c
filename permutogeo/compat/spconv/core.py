"""Algorithms of spconv, accepted and ignored: there is one here."""

from __future__ import annotations

from enum import Enum


class ConvAlgo(Enum):
    """Algorithm of a layer. Accepted for compatibility; results do not depend on it."""

    Native = 0
    MaskImplicitGemm = 1
    MaskSplitImplicitGemm = 2
