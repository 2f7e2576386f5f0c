"""Caches of tensors that are derived from a lattice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor


def cached(cache: dict, name: Hashable, make: Callable[[], Any]) -> Any:
    """Return the entry ``name`` of ``cache``, computed on first use.

    It is computed outside of inference mode, so that training can use it later.
    """
    if name not in cache:
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            with torch.inference_mode(False):
                cache[name] = make()
        else:
            cache[name] = make()
    return cache[name]


class TensorCacheMixin(ABC):
    """Mixin for frozen objects: caches derived tensors, detects in-place changes of the sources."""

    _cache: dict[Any, Any]

    @abstractmethod
    def _sources(self) -> list[Tensor]:
        """The tensors of the caller that the object was built from."""

    def __post_init__(self) -> None:
        if not torch.compiler.is_compiling():
            self._cache["versions"] = self._versions()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled objects own new tensors, whose version counters start again.
        self.__dict__.update(state)
        self._cache["versions"] = self._versions()

    def cached(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return the entry ``name``, computed on first use; for results without a gradient."""
        return cached(self._cache, name, make)

    def cached_constant(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Like :meth:`cached` while no gradient is recorded; computed at each call otherwise.

        A result that carries a gradient belongs to one backward pass.
        """
        return self.cached(name, torch.no_grad()(make)) if self.caches_constants else make()

    @property
    def caches_constants(self) -> bool:
        """Whether :meth:`cached_constant` stores results now."""
        differentiable = any(source.requires_grad for source in self._sources())
        return not (torch.compiler.is_compiling() or (differentiable and torch.is_grad_enabled()))

    def _versions(self) -> list[int]:
        """Version counters of the sources; inference tensors have none."""
        return [source._version for source in self._sources() if not source.is_inference()]

    def check_unchanged(self, name: str = "feature") -> None:
        """Raise if a source was changed in place since the object was built."""
        if torch.compiler.is_compiling() or "versions" not in self._cache:
            return
        if self._versions() != self._cache["versions"]:
            kind = type(self).__name__.lower()
            raise ValueError(
                f"Expected '{name}' as it was when the {kind} was built (it was changed in place "
                f"since); build the {kind} from a copy, or build a new one"
            )
