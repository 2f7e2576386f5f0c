"""Noise along normals."""

import pytest
import torch

from permutogeo.data.geometry import mean_edge_length, mesh_edges
from permutogeo.transforms import (
    NormalNoise,
    VertexNormals,
)


def test_noise_is_along_the_normal(sphere):
    out = NormalNoise(0.2)(sphere)
    shift = out.pos - sphere.pos
    normal = VertexNormals()(sphere).normal
    along = (shift * normal).sum(1)
    assert (shift - along[:, None] * normal).abs().max() < 1e-12
    expected = 0.2 * mean_edge_length(sphere.pos, sphere.face)
    assert along.std().item() == pytest.approx(expected.item(), rel=0.1)
    assert torch.equal(NormalNoise(seed=1)(sphere).pos, NormalNoise(seed=1)(sphere).pos)
    assert torch.equal(NormalNoise(0.0)(sphere).pos, sphere.pos)
    for std in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="finite 'std' >= 0"):
            NormalNoise(std)


def test_noise_of_each_vertex_is_drawn_alone(sphere):
    """Neither the seed of one call nor the noise of one vertex says anything about another."""
    normal = VertexNormals()(sphere).normal
    first, second = (
        ((NormalNoise(0.2, seed=seed)(sphere).pos - sphere.pos) * normal).sum(1) for seed in (0, 1)
    )
    start, end = mesh_edges(sphere.face)
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.15
    assert abs(torch.corrcoef(torch.stack([first[start], first[end]]))[0, 1]) < 0.15
    generator = torch.Generator().manual_seed(0)
    noise = NormalNoise(0.2, generator=generator)
    assert torch.equal(((noise(sphere).pos - sphere.pos) * normal).sum(1), first)
    assert not torch.equal(noise(sphere).pos, noise(sphere).pos)
