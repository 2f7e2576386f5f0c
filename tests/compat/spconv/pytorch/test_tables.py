import pytest
import torch

import permutogeo.compat.spconv.pytorch as spconv


def test_tables(sparse):
    x = sparse(3)
    branches = spconv.ConcatTable().add(spconv.SubMConv3d(5, 4, 3)).add(spconv.SubMConv3d(5, 4, 5))
    a, b = branches(x)
    joined, added = spconv.JoinTable()([a, b]), spconv.AddTable()([a, b])
    assert torch.equal(joined.features, torch.cat([a.features, b.features], 1))
    assert torch.equal(added.features, a.features + b.features)
    assert joined.indices is x.indices


def test_other_voxels(sparse):
    x = sparse(3)
    with pytest.raises(ValueError, match="AddTable: Expected tensors of the same voxels"):
        spconv.AddTable()([x, spconv.SparseConv3d(5, 5, 2, 2)(x)])
