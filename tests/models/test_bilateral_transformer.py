"""BilateralTransformer: blocks of attention."""

from permutogeo.models import BilateralTransformer
from permutogeo.nn import LatticeAttention


def test_blocks():
    model = BilateralTransformer(4, 32, 5, dim=3, depth=1)
    layers = [layer for layer in model.modules() if isinstance(layer, LatticeAttention)]
    assert [layer.heads for layer in layers] == [2, 4, 2]
