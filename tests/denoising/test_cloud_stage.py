import torch

from permutogeo.denoising.cloud_stage import (
    CloudStage,
    base_size,
    make_candidates,
    num_candidates,
    num_features,
)
from permutogeo.denoising.local_fits import neighbor_tree

GENERATOR = torch.Generator().manual_seed(0)


def plane(count, noise):
    pos = torch.rand(count, 3, generator=GENERATOR) * count**0.5
    pos[:, 2] = noise * torch.randn(count, generator=GENERATOR)
    return pos


def test_neighborhoods_grow_with_the_noise():
    sizes = [base_size(noise) for noise in (0.0, 0.5, 1.0, 2.0, 4.0, 50.0)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[2] < sizes[4] == sizes[5]


def test_candidates_point_to_the_surface():
    pos = plane(2000, 1.0)
    found = make_candidates(pos, neighbor_tree(pos), 1.0, 1.0, None)
    assert found.step.shape == (2000, num_candidates(False), 3)
    left = (pos.unsqueeze(1) + found.step)[:, :, 2]
    inside = ((pos[:, :2] > 6) & (pos[:, :2] < 38)).all(dim=1)
    # The mean of n heights has the deviation 1 / sqrt(n); there are 45 points and more.
    assert left[inside, 3:9].square().mean().sqrt() < 0.45
    again = make_candidates(pos, neighbor_tree(pos), 1.0, 0.5, found.normal)
    assert again.step.shape == (2000, num_candidates(True), 3)
    assert (found.normal[inside, 2].abs() > 0.8).float().mean() > 0.95


def test_network_sees_invariants_only():
    torch.manual_seed(0)
    stage = CloudStage(True)
    torch.nn.init.normal_(stage.last.weight)
    assert str(stage) == "CloudStage(has_normals=True)"
    pos = plane(800, 0.5)
    normal = torch.nn.functional.normalize(torch.randn(800, 3, generator=GENERATOR), dim=1)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=GENERATOR)).Q
    sign = torch.where(torch.rand(800, 1, generator=GENERATOR) < 0.5, -1.0, 1.0)
    results = []
    for place, direction in ((pos, normal), (pos @ turn, normal @ turn * sign)):
        found = make_candidates(place, neighbor_tree(place), 0.5, 1.0, direction)
        feature = stage.features(found)
        assert feature.shape == (800, num_features(True))
        results.append(stage(feature, found.step).detach())
    error = (results[0] @ turn - results[1]).norm(dim=1)
    assert error.median() < 1e-3 * results[0].norm(dim=1).median()
