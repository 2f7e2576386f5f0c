"""Caches of tensors that are derived from a lattice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import fail


def cached(cache: dict, name: Hashable, make: Callable[[], Any]) -> Any:
    """Return the entry ``name`` of ``cache``, computed on first use.

    It is computed outside of inference mode, so that training can use it later.
    """
    if name not in cache:
        if torch.is_inference_mode_enabled() and not torch.compiler.is_dynamo_compiling():
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
            self._record_versions()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled objects own new tensors, whose version counters start again.
        self.__dict__.update(state)
        self._record_versions()

    def cached(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return the entry ``name``, computed on first use; for results without a gradient."""
        return self._cache[name] if name in self._cache else cached(self._cache, name, make)

    def cached_constant(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Like :meth:`cached` while no gradient is recorded; computed at each call otherwise.

        A result that carries a gradient belongs to one backward pass.
        """
        if not self.caches_constants:
            return make()

        if name in self._cache:
            return self._cache[name]

        def constant() -> Any:
            with torch.no_grad():  # inside, since `cached` leaves inference mode
                return make()

        return self.cached(name, constant if self._differentiable() else make)

    def _differentiable(self) -> bool:
        """Whether a result could carry a gradient."""
        return bool([source for source in self._sources() if source.requires_grad])

    def known(self, name: Hashable) -> Any:
        """Return the entry ``name`` if it was computed and may be used now, else ``None``."""
        return self._cache.get(name) if self.caches_constants else None

    @property
    def caches_constants(self) -> bool:
        """Whether :meth:`cached_constant` stores results now."""
        if torch.compiler.is_compiling():
            return False
        if torch.is_grad_enabled():
            if "versions" not in self._cache:  # made by a compiled function
                return not any(source.requires_grad for source in self._sources())
            for source, _ in self._cache["versions"]:
                if source.requires_grad:
                    return False
        return True

    def _record_versions(self) -> None:
        """Record the version counters of the sources; inference tensors have none."""
        counted = [source for source in self._sources() if not source.is_inference()]
        self._cache["versions"] = [(source, source._version) for source in counted]

    def check_unchanged(self, owner: Any = None, name: str = "feature") -> None:
        """Raise if a source was changed in place since the object was built.

        Args:
            owner: The layer that is called; its name precedes the error.
        """
        if torch.compiler.is_dynamo_compiling() or "versions" not in self._cache:
            return
        for source, version in self._cache["versions"]:
            if source._version != version:
                kind = type(self).__name__.lower()
                fail(
                    owner,
                    f"Expected '{name}' as it was when the {kind} was built (it was changed in "
                    f"place since); build the {kind} from a copy, or build a new one",
                )
