import pytest
import torch

from permutogeo.runtime import products

SIZES = [(0, 3, 4), (7, 5, 3), (2000, 64, 48)]


@pytest.mark.parametrize("library", ["as it is", "MKL"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
def test_products(monkeypatch, library, dtype, rows, inputs, outputs):
    """Small and large products, by oneDNN where it is faster and without it."""
    if library == "MKL":
        monkeypatch.setattr(products, "_onednn_linear", lambda: None)
    left = torch.randn(rows, inputs, dtype=dtype)
    matrix, out = torch.randn(inputs, outputs, dtype=dtype), torch.empty(rows, outputs, dtype=dtype)
    made = products.multiply(left, matrix, out)
    torch.testing.assert_close(made, (left.double() @ matrix.double()).to(dtype))
    total = torch.ones(inputs, outputs, dtype=dtype)
    products.add_product(total, left, made)
    expected = (1 + left.double().t() @ made.double()).to(dtype)
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-2 if rows > 100 else 1e-5)


def test_other_processors_use_mkl(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    products._onednn_linear.cache_clear()
    assert products._onednn_linear() is None
    products._onednn_linear.cache_clear()
