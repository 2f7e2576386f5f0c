import torch

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.safety import judge, limit_displacement, signed_volumes, summarize
from permutogeo.denoising.triangles import TriangleElements


def limited(pos, face, moved, fraction=None, level=10.0, correlation=0.0):
    elements = TriangleElements(pos, face)
    fraction = torch.ones(elements.num_parts) if fraction is None else fraction
    estimate = face_geometry(pos, face)[0]
    noise, similar = (torch.full_like(fraction, value) for value in (level, correlation))
    return elements, limit_displacement(elements, pos, moved, estimate, fraction, noise, similar)


def test_no_face_is_turned_over(icosphere):
    """Vertices thrown to the other side of the sphere."""
    pos, face = icosphere(2)
    moved = pos.clone()
    moved[::5] *= -1
    before = face_geometry(pos, face)[0]
    _, found = limited(pos, face, moved)
    assert ((face_geometry(moved, face)[0] * before).sum(dim=1) < 0).any()
    assert ((face_geometry(found, face)[0] * before).sum(dim=1) >= 0).all()


def test_the_volume_stays(icosphere):
    pos, face = icosphere(3)
    elements, found = limited(pos, face, 0.9 * pos)
    volume = [signed_volumes(elements, p) for p in (pos, found)]
    torch.testing.assert_close(volume[0], volume[1], rtol=0.005, atol=0)


def test_the_boundary_moves_no_more_than_the_inside(icosphere):
    pos, face = icosphere(3)
    face = face[:, pos[face].mean(dim=0)[:, 2] > 0]
    generator = torch.Generator().manual_seed(0)
    step = 0.01 * torch.randn(pos.shape, generator=generator)
    boundary = TriangleElements(pos, face).update.boundary
    _, found = limited(pos, face, pos + torch.where(boundary, 5 * step, step))
    length = (found - pos).norm(dim=1, keepdim=True)
    inside = ~boundary & (TriangleElements(pos, face).update.used)
    assert length[boundary].mean() <= 1.001 * length[inside].mean()


def test_parts_that_are_not_trusted_stay(icosphere):
    pos, face = icosphere(2)
    both, faces = torch.cat([pos, pos + 3]), torch.cat([face, face + len(pos)], 1)
    step = 0.02 * torch.randn(both.shape, generator=torch.Generator().manual_seed(0))
    _, found = limited(both, faces, both + step, torch.tensor([1.0, 0.0]))
    assert torch.equal(found[len(pos) :], both[len(pos) :])
    assert not torch.equal(found[: len(pos)], pos)


def test_correlated_displacements_may_be_longer(icosphere):
    """A wave over a sphere without high-pass noise: only as correlated noise it is taken off."""
    pos, face = icosphere(4)
    moved = pos * (1 + 0.03 * torch.sin(12 * pos[:, :1]))
    length = [
        (limited(pos, face, moved, level=0.0, correlation=value)[1] - pos).norm(dim=1).mean()
        for value in (0.0, 0.9)
    ]
    assert length[0] < 0.3 * length[1]
    assert length[1] > 0.8 * (moved - pos).norm(dim=1).mean()


def test_smoothing_a_clean_surface_is_refused(icosphere):
    pos, face = icosphere(3)
    elements = TriangleElements(pos, face)
    scaled = pos / elements.spacing
    moved = elements.smooth(scaled, 3)
    found, judgment = judge(elements, scaled, moved, face_geometry(moved, face)[0])
    assert torch.equal(found, scaled)
    assert judgment.left_alone == 1 and judgment.reasons == ("no noise",)
    report = summarize("learned", found - scaled, judgment)
    assert str(report).endswith("left alone (no noise)") and report.moved == 0
