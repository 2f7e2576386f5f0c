import pytest
import torch

from permutogeo.denoising.noise import random_rotation
from permutogeo.denoising.scales import bands, canonical_frame, middle
from permutogeo.denoising.triangles import TriangleElements


def test_the_frame_turns_with_the_mesh(icosphere):
    pos, face = icosphere(2, noise=0.05)
    pos = pos.double() * torch.tensor([1.0, 1.5, 0.7])
    turn = random_rotation(torch.Generator().manual_seed(0))
    first, second = pos @ canonical_frame(pos, face), pos @ turn @ canonical_frame(pos @ turn, face)
    torch.testing.assert_close(first, second)
    frame = canonical_frame(pos, face)
    torch.testing.assert_close(frame.T @ frame, torch.eye(3, dtype=torch.float64))
    assert float(torch.linalg.det(frame)) == pytest.approx(1.0)


def test_an_even_mesh_has_one_length(icosphere):
    pos, face = icosphere(3, noise=0.02)
    assert list(bands(TriangleElements(pos, face), pos)) == []


def test_parts_have_their_own_length(icosphere):
    pos, face = icosphere(2)
    both = torch.cat([pos, 10 * pos + 20])
    elements = TriangleElements(both, torch.cat([face, face + len(pos)], 1))
    found = list(bands(elements, both))
    total = torch.zeros(elements.face.size(1))
    for band in found:
        total.index_add_(0, band.index, band.weight)
        assert torch.equal(band.vertex[band.face], elements.face[:, band.index])
    torch.testing.assert_close(total, torch.ones_like(total))
    assert found[-1].length / found[0].length == pytest.approx(10, rel=0.01)


def test_the_middle_is_a_slab_across_the_longest_axis(icosphere):
    pos, face = icosphere(3)
    pos = pos * torch.tensor([1.0, 3.0, 1.0])
    vertex, part = middle(pos, face, 200)
    assert part.shape == (3, 200) and part.unique().tolist() == list(range(len(vertex)))
    assert pos[vertex, 1].abs().max() < 1 < pos[vertex, 0].max() + 0.1
    assert middle(pos, face, 10**6)[1].shape == face.shape
