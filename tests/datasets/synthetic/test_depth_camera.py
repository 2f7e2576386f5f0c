import pytest

from permutogeo.datasets.synthetic.depth_camera import depth_scan, neighbor_correlation
from permutogeo.denoising import normal_angle


@pytest.mark.slow
@pytest.mark.parametrize(
    "solid, angle, correlation, frames", [("pyramid", 26.0, 0.7, 1), ("cone", 14.0, 0.97, 3)]
)
def test_scans_have_the_noise_that_was_asked_for(solid, angle, correlation, frames):
    scan = depth_scan(solid, 3000, angle, correlation, frames=frames)
    assert float(normal_angle(scan.pos, scan.clean_pos, scan.face)) == pytest.approx(
        angle, rel=0.05
    )
    found = neighbor_correlation(scan.pos - scan.clean_pos, scan.face)
    assert found == pytest.approx(correlation, abs=0.02)
    assert 1500 < scan.face.size(1) < 4000
    again = depth_scan(solid, 3000, angle, correlation, frames=frames)
    assert again.pos.equal(scan.pos)
