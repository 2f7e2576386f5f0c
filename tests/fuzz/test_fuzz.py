"""A short, deterministic run of the mutation fuzzer; ``python tests/fuzz/fuzz.py`` runs longer."""

import importlib.util
import random
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("fuzz", Path(__file__).parent / "fuzz.py")
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)


def test_mutated_files_are_valid_or_refused(tmp_path):
    assert fuzz.run(15 * len(fuzz.corpus()), 1, tmp_path) == []


def test_corpus_is_small_and_has_all_formats():
    files = fuzz.corpus()
    assert all(path.stat().st_size < 8_000 for _, path in files)
    suffixes = {path.suffix for _, path in files}
    for suffix in [
        "ply",
        "obj",
        "off",
        "stl",
        "glb",
        "gltf",
        "las",
        "laz",
        "e57",
        "pcd",
        "npz",
        "npy",
        "xyz",
        "png",
        "jpg",
        "safetensors",
    ]:
        assert f".{suffix}" in suffixes


def test_mutations_are_deterministic():
    first, second = (fuzz.mutate(b"a 1 2\nb 3 4\n", [b"c"], random.Random(3)) for _ in range(2))
    assert first == second


def raise_value_error(path):
    raise ValueError("something")


def raise_index_error(path):
    raise IndexError(f"'{path}'")


def accept_nothing(path):
    raise AssertionError("positions are not finite")


@pytest.mark.parametrize(
    ("reader", "problem"),
    [
        (raise_value_error, "does not name the file"),
        (raise_index_error, "IndexError"),
        (accept_nothing, "positions are not finite"),
    ],
)
def test_problems_are_found(tmp_path, reader, problem):
    assert problem in fuzz.problem_of(reader, tmp_path / "a.ply")
