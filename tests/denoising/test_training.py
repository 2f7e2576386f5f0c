import pytest
import torch

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising import (
    MeshDenoiser,
    TrainingSettings,
    evaluate_denoiser,
    train_denoiser,
)
from permutogeo.transforms import NormalNoise

QUICK = TrainingSettings(steps=40, batch_size=512, copies=1, samples=500)


def test_training_learns_and_repeats(cube):
    """A few steps on a cube do better than plain smoothing, and the seed settles the result."""
    lines: list[str] = []
    model = train_denoiser([cube()], settings=QUICK, log=lines.append)
    assert [line.split(":")[0] for line in lines[::2]] == ["stage 1/3", "stage 3/3"]
    pair = NormalNoise(0.3, keep="clean_pos", seed=1)(cube())
    (after,) = evaluate_denoiser(model, [pair])
    (start,) = evaluate_denoiser(MeshDenoiser().eval(), [pair])
    assert after < 0.8 * start
    again = train_denoiser([cube()], settings=QUICK, log=lines.append)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_fine_tuning_leaves_the_model_alone(cube):
    model = MeshDenoiser.from_pretrained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tuned = train_denoiser([cube()], model, QUICK, log=lambda line: None)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(tuned.stages[0].mean, model.stages[0].mean)
    assert not torch.equal(tuned.stages[0].lins[0].weight, model.stages[0].lins[0].weight)


def test_nothing_to_train_on():
    with pytest.raises(ValueError, match="got none"):
        train_denoiser([])


def test_a_saved_model_comes_back(tmp_path, cube):
    model = MeshDenoiser([[(1.0, None), (2.0, 0.5)]], hidden_channels=8)
    torch.nn.init.normal_(model.stages[0].lins[-1].weight, std=0.1)
    model.save_pretrained(tmp_path / "own.safetensors")
    again = MeshDenoiser.from_pretrained(tmp_path / "own.safetensors")
    mesh = NormalNoise(0.2, seed=0)(cube())
    assert torch.equal(again(mesh).pos, model(mesh).pos)
    normal = face_geometry(again(mesh).pos, mesh.face)[0]
    assert normal.isfinite().all()
