"""Functions of sparse tensors."""

from __future__ import annotations

import torch

from permutogeo.compat.spconv.pytorch.core import SparseConvTensor


def sparse_add(*tens: SparseConvTensor) -> SparseConvTensor:
    """Add sparse tensors of one shape whose voxels may differ.

    The sum has the voxels of all, in ascending order. Rules of ``indice_key`` are kept if one of
    the tensors has all voxels.
    """
    first = tens[0]
    for x in tens[1:]:
        same = x.spatial_shape == first.spatial_shape and x.batch_size == first.batch_size
        if not same or x.features.shape[1] != first.features.shape[1]:
            raise ValueError(
                f"Expected tensors of batch size {first.batch_size}, shape {first.spatial_shape} "
                f"and {first.features.shape[1]} channels (got batch size {x.batch_size}, shape "
                f"{x.spatial_shape} and {x.features.shape[1]} channels)"
            )
    for x in tens:
        x.voxels()
    indices, place = torch.cat([x.indices for x in tens]).unique(dim=0, return_inverse=True)
    features = torch.cat([x.features for x in tens])
    out = features.new_zeros(len(indices), features.shape[1]).index_add(0, place, features)
    largest = max(tens, key=lambda x: len(x.indices))
    if len(largest.indices) < len(indices):
        return first.with_voxels(out, indices, first.spatial_shape, {})
    # Rows in the order of the tensor whose rules are kept.
    start = sum(len(x.indices) for x in tens[: [x is largest for x in tens].index(True)])
    order = place[start : start + len(indices)]
    return largest.replace_feature(out[order])


sparse_add_hash_based = sparse_add
