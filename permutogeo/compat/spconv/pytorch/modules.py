"""Base class of sparse layers, containers, and layers that act on features."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import Tensor, nn

from permutogeo.compat.spconv.pytorch.core import SparseConvTensor


class SparseModule(nn.Module):
    """Base class of layers that :class:`SparseSequential` calls with a sparse tensor.

    Args:
        name: Accepted for compatibility.
    """

    def __init__(self, name: str | None = None):
        super().__init__()
        self.name = name
        self._sparse_unique_name = ""


class SparseSequential(SparseModule):
    """Layers in sequence: sparse layers get the sparse tensor, others its features.

    Takes modules, an ordered dictionary of modules, or modules by keyword.

    Example:

        >>> from permutogeo.compat.spconv.pytorch import SubMConv3d
        >>> len(SparseSequential(SubMConv3d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU()))
        3
    """

    def __init__(self, *args: Any, **kwargs: nn.Module):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = list(args[0].items())
        else:
            named = [(str(index), module) for index, module in enumerate(args)]
        for name, module in [*named, *kwargs.items()]:
            if name in self._modules:
                raise ValueError(f"Expected distinct names of modules (got '{name}' twice)")
            self.add_module(name, module)

    def __getitem__(self, idx: int) -> nn.Module:
        return list(self._modules.values())[idx]  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._modules)

    def add(self, module: nn.Module, name: str | None = None) -> None:
        """Append a module."""
        self.add_module(str(len(self._modules)) if name is None else name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            assert module is not None
            if is_spconv_module(module) or not isinstance(input, SparseConvTensor):
                input = module(input)
            elif len(input.indices):  # a batch norm refuses empty inputs
                input = input.replace_feature(module(input.features))
        return input


class _OnFeatures:
    """Mixin: a layer of dense features that takes a sparse tensor too."""

    def forward(self, input: Any) -> Any:
        if isinstance(input, SparseConvTensor):
            return input.replace_feature(super().forward(input.features))  # type: ignore[misc]
        return super().forward(input)  # type: ignore[misc]


class SparseBatchNorm(_OnFeatures, nn.BatchNorm1d):
    """Batch normalization of the features."""


class SparseSyncBatchNorm(_OnFeatures, nn.SyncBatchNorm):
    """Batch normalization of the features over all processes."""


class SparseReLU(_OnFeatures, nn.ReLU):
    """Rectified features."""


class SparseIdentity(_OnFeatures, nn.Identity):
    """The input itself."""


class Identity(nn.Module):
    """The input itself, whatever it is."""

    def forward(self, input: Any) -> Any:
        return input


class ToDense(SparseModule):
    """A sparse tensor as a dense one, ``[B, C, *shape]``."""

    def forward(self, x: SparseConvTensor) -> Tensor:
        return x.dense()


class RemoveGrid(SparseModule):
    """A sparse tensor without its ``grid``."""

    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        out = x.shadow_copy()
        out.grid = None
        return out


def is_spconv_module(module: nn.Module) -> bool:
    """Return whether a layer takes a sparse tensor."""
    return isinstance(module, SparseModule | _OnFeatures)


def is_sparse_conv(module: nn.Module) -> bool:
    """Return whether a layer is a sparse convolution."""
    from permutogeo.compat.spconv.pytorch._convolution import SparseConvolution

    return isinstance(module, SparseConvolution)


def assign_name_for_sparse_modules(module: nn.Module) -> None:
    """Give every sparse layer of a model its qualified name."""
    for name, layer in module.named_modules():
        if isinstance(layer, SparseModule):
            layer._sparse_unique_name = name
