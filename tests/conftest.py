import os
from pathlib import Path

import pytest

# Test processes share the cores, and OpenMP threads that spin while they wait take them from the
# others: clouds were denoised in five times the processor time. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

# Folders and files whose tests take seconds each: new processes, training, compilation, search.
SLOW = (
    *("cli", "compat", "denoising", "examples", "fuzz", "gpu", "image", "kernels", "models", "nn"),
    *("runtime", "train"),
    *("datasets/test_bodies.py", "datasets/test_minc.py", "datasets/test_missing_data.py"),
    *("datasets/test_sharp_shapes.py", "datasets/synthetic/test_procedural_body.py"),
    *("lattice/test_compile.py", "lattice/test_modes.py", "lattice/test_warmup.py"),
    *("ops/test_determinism.py", "ops/test_modes.py", "viz/test_browser.py"),
    *("test_docstrings.py", "test_peers.py", "test_properties.py", "test_uniformity.py"),
)
# The same for tests by words of their names.
SLOW_WORDS = ("compile", "gradgrad", "heavy_libraries", "opcheck")


def pytest_collection_modifyitems(items):
    """Mark the slow tests, which ``make check`` leaves out."""
    root = Path(__file__).parent
    slow = [root / name for name in SLOW]
    for item in items:
        listed = any(item.path == path or path in item.path.parents for path in slow)
        if listed or any(word in item.name for word in SLOW_WORDS):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of downloaded data sets, named by the environment variable PERMUTOGEO_DATA."""
    folder = os.environ.get("PERMUTOGEO_DATA")
    if not folder:
        pytest.skip("PERMUTOGEO_DATA is not set: it names the folder with the data sets")
    return Path(folder)
