"""Clouds that do not fit into memory."""

import re

import pytest
import torch

from permutogeo.cli.denoise_tiles import TileOptions
from permutogeo.data import from_point_cloud, to_point_cloud
from permutogeo.datasets import write_terrain

pytest.importorskip("laspy")


@pytest.fixture
def survey(tmp_path):
    return write_terrain(tmp_path / "survey.laz", 3000)


def test_which_files_are_worked_in_tiles(survey, tmp_path):
    assert not TileOptions().applies_to(survey)
    assert TileOptions(memory=1_000_000).applies_to(survey)
    assert TileOptions(size=5.0).applies_to(survey)
    assert not TileOptions(size=5.0).applies_to(tmp_path / "a.ply")
    assert TileOptions(margin=2.0).margin_of(survey) == 2.0
    assert 6.5 < TileOptions().margin_of(survey) < 7.5  # 20 times the root of 1/8 square metre


def test_a_file_that_does_not_fit(survey, run, tmp_path):
    out = tmp_path / "new" / "clean.laz"
    result = run("denoise", survey, "-o", out, "--memory", "6MB", "--margin", 3)
    assert result.exit_code == 0, result.output
    assert (
        re.search(r"2,9\d\d points in|3,000 points in", result.output)
        and "with a margin of 3" in result.output
    )
    before, after = from_point_cloud(survey), from_point_cloud(out)
    assert set(before.keys()) == set(after.keys())
    left = torch.isin(before.gps_time, after.gps_time)  # outliers are removed
    assert left.sum() == len(after.pos) > 2900
    order = left.nonzero().squeeze(1)
    order, other = order[before.gps_time[left].argsort()], after.gps_time.argsort()
    for name in ("classification", "intensity", "clean_z"):
        assert torch.equal(before[name][order], after[name][other]), name
    ground = (before.classification == 2)[order]
    errors = [
        (data.pos[:, 2] - data.clean_z)[rows][ground].square().mean().sqrt()
        for data, rows in ((before, order), (after, other))
    ]
    assert errors[1] < 0.8 * errors[0]
    assert [path.name for path in out.parent.iterdir()] == ["clean.laz"]


def test_on_a_cluster(survey, run, tmp_path):
    """The tiles are files to the workers; here one process, without a scheduler."""
    out = tmp_path / "out" / "clean.laz"
    options = ("--tile-size", 12, "--margin", 3, "--method", "learned", "--iterations", 1)
    result = run("denoise", survey, "-o", out, "--resume", *options)
    assert result.exit_code == 0, result.output
    assert 2900 < len(from_point_cloud(out).pos) <= 3000  # outliers are removed
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "clean.laz",
        "permutogeo-manifest.jsonl",
    ]
    again = run("denoise", survey, "-o", out, "--resume", *options)
    assert again.exit_code == 0 and "which is done" in again.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tile-size", 1, "--margin", 2), "no smaller than their margin 2 (got 1)"),
        (("--tile-size", -1), "Expected --tile-size greater than 0"),
        (("--tile-size", 10, "--report", "page.html"), "Expected no --report for a cloud"),
        (("--memory", "much"), "Expected --memory as a size such as 4GB (got 'much')"),
    ],
)
def test_bad_options(survey, run, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    result = run("denoise", survey, "-o", "out.laz", *options)
    assert result.exit_code == 1 and message in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["survey.laz"]


def test_copc_cannot_be_written_by_tiles(survey, run, tmp_path):
    result = run("denoise", survey, "-o", tmp_path / "out.copc.laz", "--tile-size", 10)
    assert result.exit_code == 1 and "written by tiles" in result.output
    tree = to_point_cloud(from_point_cloud(survey), tmp_path / "in.copc.laz")
    options = ("--tile-size", 12, "--margin", 2, "--iterations", 1)
    result = run("denoise", tree, "-o", tmp_path / "out.laz", *options)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "x.ply", "--tile-size", 5), "'x.ply': Expected one of .las, .laz (got '.ply')"),
        (("-o", "x.las", "--tile-size", 5, "--margin", -1), "Expected --margin greater than 0"),
        (("-o", "survey.laz", "--tile-size", 5), "would overwrite the input"),
    ],
)
def test_mistakes_are_found_before_anything_is_loaded(survey, run, monkeypatch, options, message):
    monkeypatch.chdir(survey.parent)
    result = run("denoise", "survey.laz", *options)
    assert result.exit_code == 1 and message in " ".join(result.output.split())
    assert "Loading" not in result.output
