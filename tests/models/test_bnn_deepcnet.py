import pytest
import torch

from permutogeo.models import BNNDeepCNet

DOUBLE = torch.float64


def test_sizes_of_the_paper():
    # 7 taps, and the other layers of DeepCNet(5, 50).
    other = sum(4 * 50 * n * 50 * (n + 1) + 50 * (n + 1) for n in range(1, 6))
    count = sum(p.numel() for p in BNNDeepCNet(1, 183).parameters())
    assert count == 7 * 50 + 50 + other + 301 * 183


def test_errors():
    with pytest.raises(ValueError, match="BNNDeepCNet: Expected 'depth'"):
        BNNDeepCNet(1, 5, depth=0)
    with pytest.raises(
        ValueError, match=r"^BNNDeepCNet: Expected a .safetensors file, a folder or"
    ):
        BNNDeepCNet.from_pretrained()
