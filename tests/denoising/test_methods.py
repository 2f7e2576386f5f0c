"""``denoise``: its methods and what they have in common."""

import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.data.geometry import mean_edge_length
from permutogeo.denoising import MeshDenoiser
from permutogeo.denoising.mesh_error import normal_angle, vertex_rmse
from permutogeo.denoising.methods import BANDWIDTH, METHODS, STEPS, denoise
from permutogeo.testing.reference import gaussian_filter
from permutogeo.transforms import FaceNormals, IsomapFeature, NormalNoise, SmoothNormals

each_method = pytest.mark.parametrize("method", METHODS)


def noisy(around=36, along=18, std=0.2):
    """A torus with bumps, which smoothing takes away."""
    u = torch.arange(around).repeat_interleave(along)
    v = torch.arange(along).repeat(around)
    a, b = u * (2 * math.pi / around), v * (2 * math.pi / along)
    tube = 0.4 + 0.05 * (5 * a).sin() * (2 * b).cos()
    radius = 1 + tube * b.cos()
    pos = torch.stack([radius * a.cos(), radius * a.sin(), tube * b.sin()], 1)
    corner = [
        (u + i) % around * along + (v + j) % along for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))
    ]
    face = torch.cat([torch.stack(corner[:3]), torch.stack([corner[0], *corner[2:]])], 1)
    return NormalNoise(std, keep="clean_pos", seed=0)(Data(pos=pos, face=face))


def errors(data):
    rmse = vertex_rmse(data.pos, data.clean_pos)
    return float(rmse), float(normal_angle(data.pos, data.clean_pos, data.face))


def test_each_method_removes_noise():
    """The filter of displacements gives back some of what smoothing took."""
    data = noisy(60, 30)
    smooth, gaussian, learned = (errors(denoise(data, method)) for method in METHODS[::-1])
    assert smooth[0] > gaussian[0]
    for error in (smooth, gaussian, learned):
        assert error[0] < 0.5 * errors(data)[0] and error[1] < 0.25 * errors(data)[1]


def test_gaussian_is_the_filter_of_the_paper():
    """Displacements from the smoothed mesh, filtered by the reference lattice in float64."""
    data = noisy(24, 12)
    base = Data(pos=data.pos.double(), face=data.face)
    smooth = SmoothNormals(STEPS)(base)
    edge = mean_edge_length(base.pos, base.face)
    feature = IsomapFeature()(smooth).intrinsic / (BANDWIDTH * edge)
    filtered = gaussian_filter((base.pos - smooth.pos).numpy(), feature.numpy(), normalize="after")
    result = denoise(base, "gaussian").pos
    np.testing.assert_allclose(result.numpy(), smooth.pos.numpy() + filtered, atol=1e-5)
    assert np.abs(filtered).max() > 1e-3


def test_learned_is_the_model():
    data = noisy()
    model = MeshDenoiser.from_pretrained()
    assert torch.equal(denoise(data).pos, model(data).pos)
    other = denoise(data, strength=0.5, iterations=1, model=model).pos
    assert torch.equal(other, model(data, strength=0.5, iterations=1).pos)


def test_a_model_is_loaded_once(monkeypatch):
    model = MeshDenoiser.from_pretrained()
    monkeypatch.setattr(MeshDenoiser, "from_pretrained", None)
    parts = []
    for _ in range(2):
        denoise(noisy(), model=model, on_progress=parts.append)
    assert parts == [0.25, 0.5, 0.75, 1.0] * 2, "no hook is left on the model"


@each_method
def test_input_stays_and_attributes_are_kept(method):
    data = FaceNormals()(noisy())
    data.x, data.names = torch.rand(len(data.pos), 3), ["a"]
    before = data.clone()
    result = denoise(data, method)
    for name, value in before.to_dict().items():
        assert torch.equal(data[name], value) if torch.is_tensor(value) else data[name] == value
    assert torch.equal(result.x, data.x) and result.names == ["a"]
    expected = FaceNormals()(Data(pos=result.pos, face=result.face)).face_normal
    torch.testing.assert_close(result.face_normal, expected)


@each_method
def test_strength(method):
    data = noisy()
    full = denoise(data, method).pos
    assert torch.equal(denoise(data, method, strength=0.0).pos, data.pos)
    half = denoise(data, method, strength=0.5).pos
    torch.testing.assert_close(half, (full + data.pos) / 2, rtol=0, atol=1e-6)
    wide = denoise(data, method, strength=2.0).pos
    assert wide.isfinite().all() and not torch.equal(wide, full)


@pytest.mark.parametrize("method", ["gaussian", "smooth"])
def test_units_place_and_type_do_not_matter(method):
    data = noisy()
    moved = Data(pos=data.pos.double() * 100 + 1e6, face=data.face)
    back = (denoise(moved, method).pos - 1e6) / 100
    assert back.dtype == torch.float64
    torch.testing.assert_close(back, denoise(data, method).pos.double(), rtol=0, atol=1e-5)


@each_method
def test_progress_goes_up_to_one(method):
    parts = []
    denoise(noisy(), method, on_progress=parts.append)
    assert parts == sorted(parts) and parts[-1] == 1.0 and all(part > 0 for part in parts)
    assert len(parts) == {"learned": 4, "gaussian": STEPS + 2, "smooth": STEPS + 1}[method]


@pytest.mark.parametrize("method", ["gaussian", "smooth"])
@pytest.mark.parametrize("face", [[[0, 0, 0]], [[0, 1, 2]], [[0, 1, 1], [0, 1, 2], [0, 2, 1]]])
def test_tiny_meshes(method, face):
    result = denoise(Data(pos=torch.eye(4)[:, :3], face=torch.tensor(face).t()), method)
    assert result.pos.isfinite().all()
    assert result.pos[3].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            {},
            {"method": "median"},
            "'method' to be 'learned', 'gaussian' or 'smooth' .got 'median'",
        ),
        ({"face": None}, {"method": "smooth"}, "a mesh for the method 'smooth'"),
        ({"pos": torch.full((4, 3), math.inf)}, {"method": "smooth"}, "finite 'pos'.*row 0"),
        ({"face": torch.tensor([[0], [1], [4]])}, {"method": "gaussian"}, "from 0 to 3"),
        ({}, {"method": "smooth", "strength": -1.0}, "'strength' >= 0"),
        ({}, {"method": "gaussian", "iterations": -1}, "'iterations' >= 0"),
        ({}, {"model": "nowhere.safetensors"}, "got 'nowhere.safetensors'"),
    ],
)
def test_errors(change, options, message):
    data = Data(pos=torch.eye(4)[:, :3], face=torch.tensor([[0], [1], [2]]))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        denoise(data.update(change), **options)
