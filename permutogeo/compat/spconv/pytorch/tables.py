"""Sums, concatenations and branches of sparse tensors with the same voxels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from permutogeo.compat.spconv.pytorch.core import SparseConvTensor
from permutogeo.compat.spconv.pytorch.modules import SparseModule


class JoinTable(SparseModule):
    """Concatenated features of tensors with the same voxels."""

    def forward(self, input: Sequence[SparseConvTensor]) -> SparseConvTensor:
        _check_aligned(self, input)
        return input[0].replace_feature(torch.cat([x.features for x in input], 1))


class AddTable(SparseModule):
    """Summed features of tensors with the same voxels."""

    def forward(self, input: Sequence[SparseConvTensor]) -> SparseConvTensor:
        _check_aligned(self, input)
        first, *others = input
        return first.replace_feature(sum((x.features for x in others), start=first.features))


class ConcatTable(SparseModule):
    """A list of the outputs of several modules for one input."""

    def forward(self, input: Any) -> list[Any]:
        return [module(input) for module in self.children()]

    def add(self, module: nn.Module) -> ConcatTable:
        """Append a module."""
        self.add_module(str(len(self._modules)), module)
        return self


def _check_aligned(layer: SparseModule, tensors: Sequence[SparseConvTensor]) -> None:
    first = tensors[0]
    for x in tensors[1:]:
        same = x.spatial_shape == first.spatial_shape and x.batch_size == first.batch_size
        if not same or len(x.indices) != len(first.indices):
            raise ValueError(
                f"{type(layer).__name__}: Expected tensors of the same voxels, {first} of shape "
                f"{first.spatial_shape} (got {x} of shape {x.spatial_shape}); "
                "functional.sparse_add adds others"
            )
