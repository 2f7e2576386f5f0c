import pytest
import torch

from permutogeo.lattice.precision import working_dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_working_dtype(dtype):
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert working_dtype(torch.empty(0, dtype=dtype)) == expected
