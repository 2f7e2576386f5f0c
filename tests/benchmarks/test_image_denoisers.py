import pytest
import torch
from torch_geometric.data import Data

from permutogeo.benchmarks.image_denoisers import ImageDenoiser, image_denoisers

SIGMA = 0.1


def test_a_function_gets_the_image_and_its_settings():
    data = Data(x=torch.tensor([[-0.5], [0.25], [0.5], [0.75], [1.0], [1.5]]), height=2, width=3)
    seen = []

    def double(image, factor):
        seen.append(image)
        return factor * image

    out = ImageDenoiser(double, {"factor": 2.0})(data)
    assert seen[0].shape == (2, 3) and seen[0].min() == 0 and seen[0].max() == 1
    assert out.flatten().tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]


def test_installed_filters_reduce_noise():
    pytest.importorskip("skimage")
    torch.manual_seed(0)
    clean = torch.where(torch.arange(32) < 16, 0.2, 0.8).repeat(32, 1).reshape(-1, 1)
    data = Data(x=clean + SIGMA * torch.randn(clean.shape), height=32, width=32)
    before = float((data.x - clean).square().mean())
    found = image_denoisers(SIGMA)
    assert {"scikit-image bilateral", "scikit-image non-local means"} <= set(found)
    for name, (function, settings) in found.items():
        after = float((ImageDenoiser(function, settings)(data) - clean).square().mean())
        assert after < 0.5 * before, name
