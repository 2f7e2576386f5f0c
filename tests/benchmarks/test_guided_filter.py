import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.benchmarks.guided_filter import GuidedFilter


def test_coefficients():
    """Against a least squares fit in each window, at the resolution of the fits."""
    torch.manual_seed(0)
    guide, p, contrast = torch.rand(3, 5, 6).double(), torch.rand(2, 5, 6).double(), 0.3
    slope, offset = GuidedFilter(4, contrast).coefficients(guide, p)
    assert slope.shape == (3, 2, 5, 6) and offset.shape == (2, 5, 6)
    fits = np.empty((5, 6, 4, 2))
    for y, x in np.ndindex(5, 6):
        window = np.s_[:, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
        colors, values = (each[window].flatten(1).T.numpy() for each in (guide, p))
        count = len(colors)
        rows = np.concatenate([colors, np.ones((count, 1))], 1)
        ridge = np.diag([contrast * np.sqrt(count)] * 3 + [0])
        wanted = np.concatenate([values, np.zeros((4, 2))])
        fits[y, x] = np.linalg.lstsq(np.concatenate([rows, ridge]), wanted, rcond=None)[0]
    for y, x in np.ndindex(5, 6):
        mean = fits[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].mean((0, 1))
        np.testing.assert_allclose(slope[:, :, y, x], mean[:3], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(offset[:, y, x], mean[3], rtol=1e-6, atol=1e-9)


def test_probabilities_follow_the_edge():
    """Coarse logits beside an edge of the image are moved to the edge."""
    height, width = 32, 40
    dark = torch.arange(width) < 20
    x = torch.where(dark, 0.2, 0.8).repeat(height, 1).reshape(-1, 1).repeat(1, 3)
    truth = dark.repeat(height, 1).reshape(-1)
    wrong = torch.where(torch.arange(width) < 22, 2.0, -2.0).repeat(height, 1).reshape(-1)
    data = Data(x=x, unary=torch.stack([wrong, -wrong], 1), height=height, width=width)
    found = GuidedFilter(8.0, 0.05)(data)
    assert found.shape == (height * width, 2)
    torch.testing.assert_close(found.sum(1), torch.ones(height * width))
    assert ((found[:, 0] > 0.5) == truth).all() and not ((wrong > 0) == truth).all()
