import os
from pathlib import Path

import pytest
import torch


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
