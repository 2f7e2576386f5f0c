from permutogeo.compat.spconv.core import ConvAlgo
from permutogeo.compat.spconv.pytorch import SubMConv3d, ops


def test_algorithms_are_accepted():
    assert [algo.name for algo in ConvAlgo] == [
        "Native",
        "MaskImplicitGemm",
        "MaskSplitImplicitGemm",
    ]
    assert ops.ConvAlgo is ConvAlgo
    assert SubMConv3d(2, 2, 3, algo=ConvAlgo.Native).algo is ConvAlgo.Native
