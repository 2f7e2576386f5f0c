"""What a frozen object keeps of the work it has done, and of the tensors it was made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from permutogeo.caching import once


class Keeping(ABC):
    """Base of frozen objects that are functions of tensors that the caller may still change."""

    _cache: dict[Any, Any]

    @abstractmethod
    def _sources(self) -> list[Tensor]:
        """The tensors that the object was made from."""

    def __post_init__(self) -> None:
        if not torch.compiler.is_compiling():
            self._cache["versions"] = self._versions()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy, or what was pickled, has tensors of its own, whose changes are counted anew.
        self.__dict__.update(state)
        self._cache["versions"] = self._versions()

    def _once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Keep what has no gradient by its nature."""
        return once(self._cache, name, make)

    def _constant(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Keep what has no gradient now. What has one belongs to one backward pass alone."""
        return self._once(name, torch.no_grad()(make)) if self._keeps else make()

    @property
    def _keeps(self) -> bool:
        """Whether constants are kept now."""
        differentiable = any(source.requires_grad for source in self._sources())
        return not (torch.compiler.is_compiling() or (differentiable and torch.is_grad_enabled()))

    def _versions(self) -> list[int]:
        """How often the sources were changed in place, where torch counts it."""
        return [source._version for source in self._sources() if not source.is_inference()]

    def _check_unchanged(self, name: str) -> None:
        """The object holds the caller's tensors; it must not follow what happens to them."""
        if torch.compiler.is_compiling() or "versions" not in self._cache:
            return
        if self._versions() != self._cache["versions"]:
            kind = type(self).__name__.lower()
            raise ValueError(
                f"Expected '{name}' as it was when the {kind} was built (it was changed in place "
                f"since); build the {kind} from a copy, or build a new one"
            )
