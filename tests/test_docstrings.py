"""The examples in docstrings run, and show what they say."""

import doctest
import importlib
import re
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import trimesh

import permutogeo
from permutogeo import compat, datasets
from permutogeo.data import from_point_cloud

FOLDERS = {"permutogeo": permutogeo, "permutogeo.datasets": datasets}
MODULES = [
    ".".join([package, *path.relative_to(folder).with_suffix("").parts])
    for package, module in FOLDERS.items()
    for folder in [Path(module.__file__).parent]
    for path in sorted(folder.rglob("*.py"))
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", [name.removesuffix(".__init__") for name in MODULES])
def test_examples_in_docstrings(name):
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 0
    assert result.failed == 0


def test_the_public_modules_have_examples():
    names = ("__init__", "lattice.lattice", "functional", "image.bilateral", "nn.__init__")
    assert {f"permutogeo.{name}" for name in names} <= set(MODULES)


def run_blocks(page, least=3):
    """Run the Python code of a page as it stands, from top to bottom; return its names."""
    text = (Path(__file__).parent.parent / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= least
    names: dict = {}
    for block in blocks:
        exec(block, names)
    return names


def test_readme():
    names = run_blocks("README.md")
    assert names["y"].shape == (10_000, 16)
    assert names["smooth"].shape == names["image"].shape


PAGES = (
    *("start/concepts", "guides/bandwidths", "guides/compile", "guides/encoding"),
    *("guides/sharing", "guides/solver"),
)


@pytest.mark.parametrize("page", [*PAGES, "guides/reproducibility"])
def test_code_on_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    try:
        run_blocks(f"docs/{page}.md", least=1)
    finally:
        torch.set_num_threads(threads)


def test_page_on_models(capsys):
    names = run_blocks("docs/guides/models.md")
    assert names["at_others"].shape == (50, 4) and names["graphs"].shape == (2, 32)
    assert "points_per_vertex=3" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["guides/clouds", "guides/denoising"])
def test_code_on_pages_that_clean_a_scan(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ball = trimesh.creation.icosphere(2)
    ball.export("scan.ply")
    run_blocks(f"docs/{page}.md", least=1)
    assert trimesh.load("clean.ply").vertices.shape == ball.vertices.shape


@pytest.mark.parametrize("page", ["guides/lidar", "tutorials/08_large"])
def test_code_on_pages_that_read_surveys(page, tmp_path, monkeypatch):
    pytest.importorskip("lazrs")
    monkeypatch.chdir(tmp_path)
    for name in ("survey.laz", "city.laz"):
        datasets.write_terrain(name, 2000)
    run_blocks(f"docs/{page}.md", least=2)
    assert hasattr(from_point_cloud("smooth.laz"), "smooth_z")


def test_page_on_spconv():
    with mock.patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.partition(".")[0] == "spconv"]:
            del sys.modules[name]
        names = run_blocks("docs/guides/spconv.md")
        assert sys.modules["spconv"] is compat.spconv
    assert names["out"].features.shape == (len(names["indices"]), 16)
