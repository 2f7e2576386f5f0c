import pytest
import torch
from torch.nn import functional

from permutogeo.compat.spconv.pytorch.ops import get_conv_output_size, get_deconv_output_size


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
def test_sizes_are_torchs(stride, padding, dilation):
    x, weight = torch.zeros(1, 1, 11, 12), torch.zeros(1, 1, 3, 2)
    settings = {"stride": stride, "padding": padding, "dilation": dilation}
    pairs = ([stride] * 2, [padding] * 2, [dilation] * 2)
    expected = list(functional.conv2d(x, weight, **settings).shape[2:])
    assert get_conv_output_size([11, 12], [3, 2], *pairs) == expected
    expected = list(functional.conv_transpose2d(x, weight, **settings).shape[2:])
    assert get_deconv_output_size([11, 12], [3, 2], *pairs, [0, 0]) == expected
