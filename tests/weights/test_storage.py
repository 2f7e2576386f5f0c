import json
import random

import pytest
import torch
from safetensors.torch import load_file, save_file

from permutogeo.weights import read_safetensors, write_safetensors


def test_tensors_and_entries_come_back(tmp_path):
    path = tmp_path / "a.safetensors"
    shared = torch.arange(6.0).view(2, 3)
    tensors = {"a": shared, "transposed": shared.t(), "grad": torch.ones(2, requires_grad=True)}
    write_safetensors(path, tensors, {"settings": {"sizes": [1, 2], "name": "é"}})
    found, settings = read_safetensors(path, "settings")
    assert settings == {"sizes": [1, 2], "name": "é"}
    assert found.keys() == tensors.keys() == load_file(path).keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor) and not found[name].requires_grad
    assert read_safetensors(path, "other")[1] is None


def test_a_failed_write_leaves_the_previous_file(tmp_path):
    path = tmp_path / "a.safetensors"
    write_safetensors(path, {"a": torch.ones(2)})
    with pytest.raises(TypeError, match="JSON"):
        write_safetensors(path, {"a": torch.zeros(2)}, {"settings": object()})
    assert torch.equal(read_safetensors(path)[0]["a"], torch.ones(2))
    assert list(tmp_path.iterdir()) == [path]


def test_errors(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(FileNotFoundError, match=r"a\.safetensors': Expected a file"):
        read_safetensors(path)
    path.write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match=r"a\.safetensors': Expected a safetensors file"):
        read_safetensors(path)
    save_file({"a": torch.zeros(2)}, path, {"settings": "{"})
    with pytest.raises(ValueError, match=r"a\.safetensors': Expected JSON in the entry 'settings'"):
        read_safetensors(path, "settings")
    assert torch.equal(read_safetensors(path, "other")[0]["a"], torch.zeros(2))


def test_deeply_nested_json_is_an_error(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.zeros(2)}, path, {"settings": "[" * 100_000 + "]" * 100_000})
    with pytest.raises(ValueError, match="Expected JSON in the entry 'settings'"):
        read_safetensors(path, "settings")


def test_damaged_files_are_refused(tmp_path):
    """Each changed byte is noticed, or changes nothing (spaces between the header's items)."""
    path, copy = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    tensors = {"w": torch.rand(20, 3), "half": torch.ones(5, dtype=torch.bfloat16)}
    tensors["scalar"] = torch.tensor(3)
    entry = {"sizes": [1, 2, 3], "rate": 0.125}
    write_safetensors(path, tensors, {"settings": entry})
    whole = path.read_bytes()
    rng, refused = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.1:
            damaged = damaged[: rng.randrange(len(damaged))]
        copy.write_bytes(damaged)
        try:
            found, settings = read_safetensors(copy, "settings", needs_checksum=True)
        except ValueError as error:
            assert str(copy) in str(error)
            refused += 1
            continue
        if settings is None:  # the name of the entry was hit: callers refuse that
            refused += 1
            continue
        assert json.dumps(settings) == json.dumps(entry) and found.keys() == tensors.keys()
        assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert refused > 380


def test_files_of_other_programs_need_no_checksum(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.zeros(2)}, path, {"settings": "{}"})
    assert read_safetensors(path, "settings")[1] == {}
    with pytest.raises(ValueError, match="Expected a checksum"):
        read_safetensors(path, "settings", needs_checksum=True)
