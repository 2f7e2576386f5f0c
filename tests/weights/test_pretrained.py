import json

import pytest
import torch
from safetensors.torch import save_file

from permutogeo import weights
from permutogeo.denoising import MeshDenoiser


def test_the_denoiser_is_there_and_small():
    assert "mesh_denoiser" in weights.names()
    path = weights.FOLDER / "mesh_denoiser.safetensors"
    # Stages for independent noise, and for noise of scanners.
    assert path.stat().st_size < 1_000_000
    tensors, settings = weights.load("mesh_denoiser")
    assert tensors and all(tensor.isfinite().all() for tensor in tensors.values())
    assert MeshDenoiser(**settings).state_dict().keys() == tensors.keys()


def test_by_path(tmp_path):
    path = tmp_path / "own.safetensors"
    save_file({"a": torch.arange(3.0)}, path, {weights.SETTINGS: json.dumps({"size": 3})})
    tensors, settings = weights.load(path)
    assert settings == {"size": 3}
    assert torch.equal(tensors["a"], torch.arange(3.0))


def test_no_such_weights(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"one of .*mesh_denoiser.*'other'"):
        weights.load("other")
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        MeshDenoiser.from_pretrained(tmp_path / "none.safetensors")


def test_files_that_are_no_weights(tmp_path):
    path = tmp_path / "text.safetensors"
    path.write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match="Expected a safetensors file"):
        weights.load(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="settings"):
        weights.load(path)
    save_file({"a": torch.zeros(2)}, path, {weights.SETTINGS: "{}"})
    with pytest.raises(ValueError, match="weights of a MeshDenoiser"):
        MeshDenoiser.from_pretrained(path)
    save_file({"a": torch.zeros(2)}, path, {weights.SETTINGS: '{"size": 3}'})
    with pytest.raises(ValueError, match="weights of a MeshDenoiser"):
        MeshDenoiser.from_pretrained(path)


def test_what_is_written_can_be_read_by_others(tmp_path):
    path = tmp_path / "own.safetensors"
    weights.save(path, {"a": torch.rand(2, 3).t()}, {"size": 3})
    plain = tmp_path / "plain.txt"
    plain.write_text("as any other file")
    assert path.stat().st_mode == plain.stat().st_mode
    assert weights.load(path)[1] == {"size": 3}


def test_weights_of_another_model():
    with pytest.raises(
        ValueError, match=r"'tiles': Expected the weights of a MeshDenoiser \(got a"
    ):
        MeshDenoiser.from_pretrained("tiles")
