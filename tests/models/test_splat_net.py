import pytest
import torch

from permutogeo.models import SplatNet

DOUBLE = torch.float64


def test_scales_multiply_the_features():
    """One scale of a half is a network on halved features."""
    torch.manual_seed(0)
    model = SplatNet(4, 8, 5, dim=3, scales=(0.5,)).eval()
    unit = SplatNet(4, 8, 5, dim=3, scales=(1.0,)).eval()
    unit.load_state_dict(model.state_dict())
    x, feature = torch.randn(60, 4), 2 * torch.randn(60, 3)
    torch.testing.assert_close(model(x, feature), unit(x, 0.5 * feature))


@pytest.mark.parametrize("scales", [(), (1.0, -1.0), (float("inf"),)])
def test_errors(scales):
    with pytest.raises(ValueError, match="SplatNet: Expected 'scales'"):
        SplatNet(3, 8, 5, 3, scales=scales)
