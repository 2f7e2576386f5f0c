import torch

from permutogeo.denoising.cascade import initial_surface
from permutogeo.denoising.normal_filter import Candidates, NormalStage
from permutogeo.denoising.triangles import TriangleElements
from permutogeo.functional import brute_force_filter

GENERATOR = torch.Generator().manual_seed(0)


def test_representation():
    stage = NormalStage([(2.0, None), (1, 0.5)], hidden_channels=8)
    assert str(stage) == "NormalStage([(2.0, None), (1.0, 0.5)], num_smooth=3, hidden_channels=8)"


def test_a_new_stage_returns_the_estimate(icosphere):
    pos, face = icosphere(2, noise=0.02)
    surface = initial_surface(TriangleElements(pos, face), pos / 0.3)
    stage = NormalStage([(2.0, None), (2.0, 0.6)])
    torch.testing.assert_close(stage(surface), surface.estimate)


def test_candidates_are_near_the_exact_means(icosphere):
    pos, face = icosphere(3, noise=0.02)
    elements = TriangleElements(pos, face)
    surface = initial_surface(elements, pos / elements.spacing)
    stage = NormalStage([(2.0, None), (2.0, 0.6)])
    vector = stage.candidates(surface).normals
    measured = surface.input_area.unsqueeze(1) * surface.input_normal
    for index, feature in enumerate(
        [surface.center / 2, torch.cat([surface.center / 2, surface.estimate / 0.6], 1)]
    ):
        exact = torch.nn.functional.normalize(brute_force_filter(measured, feature), dim=1)
        cosine = (exact * vector[:, 6 + 2 * index]).sum(dim=1)
        noisy = (exact * surface.input_normal).sum(dim=1)
        assert cosine.mean() > 0.998 > noisy.mean()


def test_inputs_do_not_change_with_rotations(icosphere):
    pos, face = icosphere(2, noise=0.02)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=GENERATOR).double())[0]
    turn = turn * torch.linalg.det(turn)
    stage = NormalStage([(2.0, None), (2.0, 0.6)])
    candidates = stage.candidates(initial_surface(TriangleElements(pos, face), pos / 0.3))
    candidates = Candidates(candidates.normals.double(), candidates.statistics.double())
    turned = Candidates(candidates.normals @ turn.T, candidates.statistics)
    expected = stage.inputs(candidates)
    torch.testing.assert_close(stage.inputs(turned), expected, rtol=0, atol=1e-8)
    assert len(expected[0]) == stage.num_inputs
    for lin in stage.lins:
        torch.nn.init.normal_(lin.weight, std=0.2)
    stage = stage.double()
    torch.testing.assert_close(stage.mix(turned), stage.mix(candidates) @ turn.T, rtol=0, atol=1e-6)
