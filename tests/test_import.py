import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import permutogeo as pg

ROOT = Path(__file__).parent.parent


def run(code, tmp_path):
    """Output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "WARP_CACHE_PATH": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_import_brings_nothing_heavy(tmp_path):
    code = "import json, sys, permutogeo; print(json.dumps(sorted(sys.modules)))"
    modules = set(json.loads(run(code, tmp_path)))
    assert not modules & {"torch", "warp", "open3d", "matplotlib", "torch_geometric", "scipy"}
    assert not (tmp_path / "cache").exists()


def test_the_lattice_brings_no_extras_and_starts_no_compiler(tmp_path):
    code = (
        "import json, sys, permutogeo as pg\n"
        "pg.Lattice, pg.functional, pg.image, pg.ops, pg.stencil(3, 1), pg.warmup\n"
        "started = sys.modules['warp._src.context'].runtime is not None\n"
        "print(json.dumps([started, sorted(sys.modules)]))"
    )
    started, modules = json.loads(run(code, tmp_path))
    assert not set(modules) & {"open3d", "matplotlib", "torch_geometric"}
    assert not started
    assert not (tmp_path / "cache").exists()


def test_dense_crfs_bring_no_pyg(tmp_path):
    """Of the layers, only those of PyG import it, which takes longer than torch itself."""
    code = (
        "import json, sys\n"
        "import permutogeo.compat.pydensecrf.densecrf, permutogeo.compat.pydensecrf.utils\n"
        "from permutogeo.image import segmentation\n"
        "from permutogeo.nn import CRFLoss, DenseCRF, FrankWolfe, GaussianKernel, LearnedKernel\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    modules = set(json.loads(run(code, tmp_path)))
    assert not modules & {"torch_geometric", "torch._dynamo", "scipy", "matplotlib", "open3d"}


def test_layers_are_found_by_name():
    from permutogeo import nn

    assert set(nn.__all__) <= set(dir(nn))
    assert nn.__all__ == sorted(nn.__all__)
    for name in nn.__all__:
        assert getattr(nn, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'LaticeConv'"):
        nn.LaticeConv  # noqa: B018


def test_star_import(tmp_path):
    code = (
        "from permutogeo import *\nprint(Lattice.__name__, functional.__name__, stencil(1)[0, 0])"
    )
    assert run(code, tmp_path) == "Lattice permutogeo.functional tensor(0)\n"


def test_dir_lists_every_public_name():
    names = dir(pg)
    assert names == sorted(names)
    assert set(pg.__all__) <= set(names)
    for name in pg.__all__:
        assert getattr(pg, name) is not None
    assert pg.__all__ == sorted(pg.__all__)


def test_dir_shows_no_helpers():
    assert {name for name in dir(pg) if not name.startswith("__")} == set(pg.__all__) - {
        "__version__"
    }


def test_a_checkout_maps_three_folders_only(tmp_path):
    code = (
        "import importlib.util, permutogeo.kernels.blur, permutogeo.datasets.synthetic\n"
        "import permutogeo.benchmarks\n"
        "others = 'permutogeo', 'tests', 'examples', 'docs', 'conftest'\n"
        "print([importlib.util.find_spec(f'permutogeo.{name}') for name in others])"
    )
    assert run(code, tmp_path) == "[None, None, None, None, None]\n"


def test_names_stand_for_what_they_say():
    from permutogeo import functional, image
    from permutogeo.lattice import Incidence, Lattice

    assert pg.Lattice is Lattice and pg.Incidence is Incidence
    assert pg.functional is functional and pg.image is image
    assert pg.__version__


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="module 'permutogeo' has no attribute 'Latice'"):
        pg.Latice  # noqa: B018
    assert not hasattr(pg, "anything_else")
