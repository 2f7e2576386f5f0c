"""The cloud denoiser: what it must not change, what it must not harm, and what it gains."""

import math

import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Batch, Data

from permutogeo.denoising import CloudDenoiser, chamfer_distance, denoise
from permutogeo.denoising.surface_sampling import sample_surface

MODEL = CloudDenoiser.from_pretrained()


def mesh(name):
    """Return vertices and faces in the unit sphere."""
    made = {
        "sphere": lambda: trimesh.creation.icosphere(4),
        "torus": lambda: trimesh.creation.torus(0.7, 0.25),
        "box": lambda: trimesh.creation.box((1.2, 0.9, 0.7)),
        "plate": lambda: trimesh.creation.box((1.4, 1.4, 0.12)),
        "wall": lambda: trimesh.creation.box((1.2, 1.2, 0.066)),
        "cylinder": lambda: trimesh.creation.cylinder(0.4, 1.6),
        "cone": lambda: trimesh.creation.cone(0.6, 1.2),
        "sheet": lambda: trimesh.Trimesh(
            [[-0.7, -0.7, 0], [0.7, -0.7, 0], [0.7, 0.7, 0], [-0.7, 0.7, 0]],
            [[0, 1, 2], [0, 2, 3]],
        ),
        "two spheres": lambda: trimesh.util.concatenate(
            [trimesh.creation.icosphere(3, 0.4).apply_translation((x, 0, 0)) for x in (-0.5, 0.5)]
        ),
    }[name]()
    return torch.from_numpy(np.array(made.vertices)), torch.from_numpy(made.faces.T.copy())


def cloud(name="torus", count=3000, level=0.0, even=False, kind="gaussian", seed=0):
    """Return clean and noisy points."""
    rng = np.random.default_rng(seed)
    clean, normal = sample_surface(*mesh(name), count, rng, even)
    noise = torch.from_numpy(rng.standard_normal((count, 3)))
    if kind == "normal":
        noise = noise[:, :1] * normal
    elif kind == "ray":
        ray = torch.nn.functional.normalize(clean - torch.tensor([0.0, 1.0, 3.0]).double(), dim=1)
        noise = 2**0.5 * noise[:, :1] * ray
    elif kind == "impulse":
        noise = noise * (torch.from_numpy(rng.random((count, 1))) < 0.2) / 0.2**0.5
    return clean, clean + level * noise


def spacing(name, count):
    pos, face = mesh(name)
    return math.sqrt(trimesh.Trimesh(pos.numpy(), face.t().numpy()).area / count)


def test_str():
    assert str(MODEL) == "CloudDenoiser(hidden_channels=64)"


SHAPES = ("sphere", "torus", "box", "plate", "cylinder", "cone", "sheet", "two spheres")
NOISES = [
    (2500, 0.02, "gaussian"),
    (2500, 0.015, "ray"),
    *((600, level, "gaussian") for level in (0.005, 0.02)),
    (300, 0.01, "normal"),
    (1200, 0.01, "impulse"),
]


@pytest.mark.slow
@pytest.mark.parametrize("even", [False, True], ids=["random", "even"])
@pytest.mark.parametrize("name", SHAPES)
def test_no_cloud_of_the_zoo_gets_worse(name, even):
    """96 clouds; coarse plates, whose sides are closer than their points, are left alone."""
    ratios = {}
    for count, level, kind in NOISES:
        clean, noisy = cloud(name, count, level, even, kind)
        result = MODEL(Data(pos=noisy)).pos
        before, after = (float(chamfer_distance(pos, clean)) for pos in (noisy, result))
        ratios[count, level, kind] = after / before
    assert max(ratios.values()) <= 1.0, max(ratios.items(), key=lambda item: item[1])
    assert ratios[2500, 0.02, "gaussian"] < 0.75


def test_a_dense_wall_of_two_standard_deviations_keeps_two_sides():
    """Both sides look like more noise around one sheet; they become one if that is removed."""
    clean, noisy = cloud("wall", 12_000, 0.03, even=True)
    reports, parts = [], []
    result = MODEL(Data(pos=noisy), on_report=reports.append, on_progress=parts.append).pos
    assert reports[0].noise < 0.025, "not that of both sides together"
    assert len(parts) > 3 and parts == sorted(parts) and parts[-1] < 1, "one bar for all runs"
    before, after = (float(chamfer_distance(pos, clean)) for pos in (noisy, result))
    assert after < 0.6 * before


@pytest.mark.parametrize("even", [False, True], ids=["random", "even"])
@pytest.mark.parametrize("level", [0.0, 0.01, 0.04])
def test_a_coarse_plate_is_left_alone(level, even):
    _, noisy = cloud("plate", 600, level, even)
    reports = []
    assert torch.equal(MODEL(Data(pos=noisy), on_report=reports.append).pos, noisy)
    assert reports[0].action.startswith("left alone")


@pytest.mark.parametrize("name", SHAPES)
def test_a_clean_cloud_stays(name):
    for count in (300, 3000):
        clean, _ = cloud(name, count)
        moved = (MODEL(Data(pos=clean)).pos - clean).norm(dim=1)
        assert moved.square().mean().sqrt() < 0.1 * spacing(name, count)


def test_a_plate_and_its_border_survive():
    """Both sides of a plate stay apart, and an open sheet keeps its size."""
    _, noisy = cloud("plate", 6000, 0.01)
    height = MODEL(Data(pos=noisy)).pos[:, 2].abs()
    assert ((height - 0.06).abs() < 0.02).float().mean() > 0.9
    _, noisy = cloud("sheet", 3000, 0.01)
    width = MODEL(Data(pos=noisy)).pos[:, :2].abs().amax(dim=0)
    assert ((width - 0.7).abs() < 0.04).all()


def test_density_is_kept():
    """A cloud that is four times as dense on one side stays so."""
    clean, _ = cloud("sphere", 5000, seed=1)
    keep = (clean[:, 0] > 0) | (torch.arange(5000) % 4 == 0)
    noisy = clean[keep] + 0.01 * torch.randn(int(keep.sum()), 3).double()
    result = MODEL(Data(pos=noisy)).pos
    assert len(result) >= len(noisy) - 2
    parts = [(pos[:, 0] > 0.05).double().mean() for pos in (noisy, result)]
    assert abs(float(parts[0] - parts[1])) < 0.01


def test_outliers_and_their_attributes_are_removed():
    _, noisy = cloud("torus", 3000, 0.01)
    rng = np.random.default_rng(3)
    far = torch.from_numpy(rng.uniform(-1, 1, (60, 3)) + np.array([0.0, 0.0, 2.5]))
    data = Data(pos=torch.cat([noisy, far]), x=torch.arange(3060), scale=torch.ones(2))
    reports = []
    result = MODEL(data, on_report=reports.append)
    (report,) = reports
    assert report.points == 3060 and report.removed == 3060 - len(result.pos)
    assert (result.x < 3000).sum() >= 2998
    assert (result.x >= 3000).sum() <= 5 and len(result.scale) == 2
    assert len(MODEL(data, remove_outliers=False).pos) == 3060
    assert len(data.pos) == 3060


def test_rotation_scale_and_order():
    _, noisy = cloud("torus", 2500, 0.02)
    expected = MODEL(Data(pos=noisy)).pos
    shift = (expected - noisy).norm(dim=1).mean()
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator).double()).Q
    order = torch.randperm(2500, generator=generator)
    place = torch.tensor([1e3, -2e4, 5.0]).double()
    moved = (noisy @ turn * 1e3 + place)[order]
    result = (MODEL(Data(pos=moved)).pos - place) / 1e3 @ turn.t()
    # Neighbors at equal distances may be exchanged by rounding: a few points differ.
    error = (result - expected[order]).norm(dim=1)
    assert error.median() < 1e-3 * shift and error.mean() < 0.01 * shift


def test_bits_do_not_depend_on_threads():
    _, noisy = cloud("box", 1200, 0.03)
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            results.append(MODEL(Data(pos=noisy)).pos)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_a_batch_is_its_clouds():
    clouds = [Data(pos=cloud(name, 800, 0.02)[1]) for name in ("sphere", "box", "torus")]
    batch = denoise(Batch.from_data_list(clouds))
    assert isinstance(batch, Batch) and batch.num_graphs == 3
    for one, part in zip(clouds, batch.to_data_list(), strict=True):
        assert torch.equal(MODEL(one).pos, part.pos)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_few_points_are_left_alone(count):
    pos = torch.rand(count, 3)
    reports = []
    result = denoise(Data(pos=pos, x=torch.ones(count, 1)), on_report=reports.append)
    assert torch.equal(result.pos, pos) and result.pos is not pos
    assert str(reports[0]) == "left alone: fewer than 16 distinct points"


def test_duplicates_lines_and_planes_are_finite():
    _, noisy = cloud("sphere", 400, 0.02)
    twice = MODEL(Data(pos=noisy.repeat(30, 1))).pos
    assert torch.equal(twice[:400], twice[400:800])
    torch.testing.assert_close(twice[:400], MODEL(Data(pos=noisy)).pos)
    same = torch.ones(100, 3)
    assert torch.equal(MODEL(Data(pos=same)).pos, same)
    line = torch.linspace(0, 1, 200).unsqueeze(1) * torch.ones(1, 3)
    grid = torch.cartesian_prod(torch.arange(20.0), torch.arange(20.0), torch.zeros(1))
    for pos in (line, grid):
        result = MODEL(Data(pos=pos)).pos
        assert result.shape == pos.shape
        torch.testing.assert_close(result, pos, rtol=0, atol=1e-3)


def test_options():
    _, noisy = cloud("torus", 1500, 0.02)
    data = Data(pos=noisy)
    full = MODEL(data).pos
    assert torch.equal(MODEL(data, strength=0.0).pos, noisy)
    assert torch.equal(MODEL(data, iterations=0).pos, noisy)
    torch.testing.assert_close(MODEL(data, strength=0.5).pos, (full + noisy) / 2)
    assert not torch.equal(MODEL(data, iterations=1).pos, full)
    assert MODEL(data, strength=3.0, iterations=5).pos.isfinite().all()
    parts = []
    assert torch.equal(denoise(data, on_progress=parts.append).pos, full)
    assert parts == [0.25, 0.5, 0.75, 1.0]


def test_normals_keep_their_side():
    clean, noisy = cloud("sphere", 2000, 0.01)
    side = torch.where(torch.arange(2000) % 2 == 0, 1.0, -1.0).unsqueeze(1)
    data = Data(pos=noisy.float(), normal=(clean * side).float())
    result = MODEL(data)
    assert result.normal.dtype == torch.float32 and result.pos.dtype == torch.float32
    cosine = (result.normal * clean.float() * side).sum(dim=1)
    assert cosine.min() > 0 and cosine.mean() > 0.98


@pytest.mark.parametrize(
    ("pos", "options", "message"),
    [
        (torch.tensor([[0.0, math.nan, 0.0]]), {}, "finite 'pos'.*row 0"),
        (torch.zeros(4, 2), {}, r"'pos' of shape \[N, 3\]"),
        (torch.zeros(4, 3), {"strength": -1.0}, "'strength' >= 0"),
        (torch.zeros(4, 3), {"iterations": -1}, "'iterations' >= 0"),
    ],
)
def test_errors(pos, options, message):
    with pytest.raises(ValueError, match=message):
        denoise(Data(pos=pos), **options)


def test_meshes_need_their_own_model():
    data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
    with pytest.raises(ValueError, match="Expected a MeshDenoiser for a mesh"):
        denoise(data, model=MODEL)
