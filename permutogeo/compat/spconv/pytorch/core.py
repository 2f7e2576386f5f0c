"""Sparse tensors of voxels with features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permutogeo.compat.spconv._rules import IndiceData
from permutogeo.compat.spconv._voxels import Voxels, check_indices

__all__ = ["IndiceData", "SparseConvTensor", "expand_nd"]


class SparseConvTensor:
    """Features of the voxels of a batch of grids.

    Args:
        features: ``[N, C]``.
        indices: Batch index and coordinates of each voxel, ``[N, 1 + d]`` int32, in any order.
        spatial_shape: Extent of the grid along the ``d`` coordinates.
        batch_size: Number of grids.
        grid, voxel_num, benchmark, permanent_thrust_allocator, enable_timer, force_algo: Accepted
            for compatibility and ignored.
        indice_dict: Rules by ``indice_key``.

    Voxels are checked by the first layer that uses them: a voxel outside of the shape and two equal
    voxels are errors.

    Example:

        >>> indices = torch.tensor([[0, 1, 1], [0, 1, 2]], dtype=torch.int32)
        >>> x = SparseConvTensor(torch.ones(2, 3), indices, [4, 4], batch_size=1)
        >>> x.dense().shape
        torch.Size([1, 3, 4, 4])
    """

    def __init__(
        self,
        features: Tensor,
        indices: Tensor,
        spatial_shape: Sequence[int],
        batch_size: int,
        grid: Tensor | None = None,
        voxel_num: Tensor | None = None,
        indice_dict: dict[str, IndiceData] | None = None,
        benchmark: bool = False,
        permanent_thrust_allocator: bool = False,
        enable_timer: bool = False,
        force_algo: Any = None,
    ):
        batch_size = int(batch_size)
        indices, self.spatial_shape = check_indices(indices, spatial_shape, batch_size)
        _check_features(features, indices)
        self._features = features
        self._indices = indices
        self._sorted: tuple[Any, Voxels] | None = None
        self.batch_size = batch_size
        self.indice_dict = {} if indice_dict is None else indice_dict
        self.grid: Tensor | None = torch.Tensor() if grid is None else grid
        self.voxel_num = voxel_num
        self.benchmark = benchmark
        self.benchmark_record: dict[str, Any] = {}
        self.thrust_allocator = self.int8_scale = self._timer = None
        self.force_algo = force_algo

    def __repr__(self) -> str:
        return f"SparseConvTensor[shape={self._features.shape}]"

    @property
    def features(self) -> Tensor:
        """Features ``[N, C]``; :meth:`replace_feature` returns a tensor with others."""
        return self._features

    @features.setter
    def features(self, value: Tensor) -> None:
        raise ValueError(
            "Expected x = x.replace_feature(features) (got x.features = features, which would "
            "change tensors that share it)"
        )

    @property
    def indices(self) -> Tensor:
        """Batch index and coordinates of each voxel, ``[N, 1 + d]`` int32."""
        return self._indices

    @indices.setter
    def indices(self, value: Tensor) -> None:
        self._indices, self._sorted = value, None

    @property
    def spatial_size(self) -> int:
        """Number of cells of a grid."""
        return math.prod(self.spatial_shape)

    @property
    def is_quantized(self) -> bool:
        """Whether the features are 8-bit integers; never true here."""
        return False

    def voxels(self) -> Voxels:
        """Return the voxels sorted by their codes, cached until ``indices`` change."""
        state = self._state()
        if self._sorted is None or self._sorted[0] != state:
            found = Voxels.build(self._indices, self.spatial_shape, self.batch_size)
            self._sorted = (state, found)
        return self._sorted[1]

    def _state(self) -> tuple:
        version = 0 if self._indices.is_inference() else self._indices._version
        return version, tuple(self.spatial_shape), self.batch_size

    def shadow_copy(self) -> SparseConvTensor:
        """Return another tensor of the same features, voxels and rules."""
        return self.replace_feature(self._features)

    def replace_feature(self, feature: Tensor) -> SparseConvTensor:
        """Return a tensor of the same voxels and rules with other features."""
        other = object.__new__(SparseConvTensor)
        other.__dict__.update(self.__dict__)
        other._features = feature
        return other

    def with_voxels(
        self,
        features: Tensor,
        indices: Tensor,
        spatial_shape: list[int],
        indice_dict: dict[str, IndiceData],
    ) -> SparseConvTensor:
        """Return the output of a layer."""
        other = self.replace_feature(features)
        if indices is not self._indices:
            other.indices = indices
        other.spatial_shape, other.indice_dict = list(spatial_shape), indice_dict
        return other

    def select_by_index(self, valid_indices: Tensor) -> SparseConvTensor:
        """Return some of the voxels, by their rows or a mask, without rules."""
        features, indices = self._features[valid_indices], self._indices[valid_indices]
        return self.with_voxels(features, indices, self.spatial_shape, {})

    def find_indice_pair(self, key: str | None) -> IndiceData | None:
        """Return the rule of an ``indice_key``."""
        return None if key is None else self.indice_dict.get(key)

    @classmethod
    def from_dense(cls, x: Tensor) -> SparseConvTensor:
        """Return the voxels of a dense tensor ``[B, *shape, C]`` with a channel other than 0."""
        indices = (x != 0).any(-1).nonzero()
        features = x[tuple(indices.t())]
        return cls(features, indices.int(), list(x.shape[1:-1]), x.shape[0])

    def dense(self, channels_first: bool = True) -> Tensor:
        """Return ``[B, C, *shape]``, or ``[B, *shape, C]``, with zeros where no voxel is."""
        _check_features(self._features, self._indices)
        self.voxels()
        shape = (self.batch_size, *self.spatial_shape, self._features.shape[1])
        place = tuple(self._indices.long().t())
        out = self._features.new_zeros(shape).index_put(place, self._features)
        return out.movedim(-1, 1).contiguous() if channels_first else out

    def minus(self) -> SparseConvTensor:
        """Return the tensor with negated features."""
        return self.replace_feature(-self._features)

    def __add__(self, other: SparseConvTensor | Tensor) -> SparseConvTensor:
        features = other.features if isinstance(other, SparseConvTensor) else other
        return self.replace_feature(self._features + features)

    __radd__ = __iadd__ = __add__


def _check_features(features: Any, indices: Tensor) -> None:
    if not isinstance(features, Tensor):
        raise TypeError(f"Expected 'features' to be a tensor (got {type(features).__name__})")
    if features.dim() != 2 or len(features) != len(indices):
        raise ValueError(
            f"Expected 'features' of shape [{len(indices)}, C], a row for each voxel "
            f"(got {list(features.shape)})"
        )
    if features.device != indices.device:
        raise ValueError(
            f"Expected 'indices' on {features.device} like 'features' (got {indices.device})"
        )


def expand_nd(ndim: int, val: int | Sequence[int]) -> list[int]:
    """Return one number for each axis."""
    values = [val] * ndim if isinstance(val, int) else [int(each) for each in val]
    if len(values) != ndim:
        raise ValueError(f"Expected one number or {ndim} (got {val})")
    return values
