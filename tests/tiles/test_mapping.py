"""Functions over tiles against the same function over the whole cloud."""

import copy
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from permutogeo.data import from_point_cloud
from permutogeo.functional import gaussian_filter
from permutogeo.tiles import lattice_reach, map_tiles, merge_tiles, split_tiles

SIGMA = 0.8


def smooth(data):
    """A Gaussian over x, y, z."""
    data = copy.copy(data)
    data.smooth = gaussian_filter(data.pos[:, 2:], data.pos / SIGMA)[:, 0]
    return data


def remove_outliers(data):
    """Keep points with four others within a metre."""
    tree = cKDTree(data.pos.numpy())
    count = tree.query_ball_point(data.pos.numpy(), 1.0, return_length=True)
    return data.subgraph(torch.from_numpy(count > 4))


@pytest.mark.parametrize("name", ["a.las", "a.laz", "a.copc.laz"])
def test_tiles_equal_the_whole(survey_file, tmp_path, name):
    """From a margin of the reach times the bandwidth on; with half of it they differ."""
    path, data = survey_file(name)
    expected = torch.empty(len(data.pos), dtype=torch.float64)
    expected[data.number] = smooth(data).smooth
    margin = lattice_reach(3) * SIGMA
    errors = []
    for width in (margin, margin / 2):
        run = map_tiles(smooth, path, 8.0, width, tmp_path / "out.laz")
        out = from_point_cloud(tmp_path / "out.laz")
        assert run.written == run.points == len(out.pos) == 4000 and run.tiles == 20
        assert sorted(out.number.tolist()) == list(range(4000))
        errors.append(float((out.smooth - expected[out.number]).abs().max()))
    assert errors[0] < 1e-12 < errors[1]


def test_points_may_be_removed(survey_file, tmp_path):
    path, data = survey_file()
    map_tiles(remove_outliers, path, 7.0, 1.0, tmp_path / "out.laz")
    expected = remove_outliers(data)
    assert 100 < len(expected.pos) < 3900
    out = from_point_cloud(tmp_path / "out.laz")
    assert sorted(out.number.tolist()) == sorted(expected.number.tolist())
    assert "core" not in out


def test_memory_divides_tiles(survey_file, tmp_path):
    path, data = survey_file()
    for size in (40.0, None):
        run = map_tiles(smooth, path, size, 2.0, tmp_path / "out.laz", memory=1_600_000)
        assert run.largest <= 1000 and run.tiles > 4 and run.written == 4000
    out = from_point_cloud(tmp_path / "out.laz")
    assert torch.equal(out.pos[out.number.argsort()], data.pos[data.number.argsort()])
    with pytest.raises(ValueError, match=r"Expected memory for the points of a tile of side"):
        map_tiles(smooth, path, 40.0, 9.0, tmp_path / "new.laz", memory=160_000)
    assert not (tmp_path / "new.laz").exists()


def test_without_output(survey_file):
    path, data = survey_file()
    seen = []
    run = map_tiles(lambda tile: int(tile.core.sum()), path, 10.0, 1.0, on_progress=seen.append)
    assert sum(run.results) == 4000 and len(run.results) == run.tiles == 12
    assert seen == sorted(seen) and seen[-1] == 1.0
    assert data.pos.dtype == torch.float64


def test_split_and_merge(survey_file, tmp_path):
    path, data = survey_file("a.copc.laz")
    files = split_tiles(path, tmp_path / "tiles", 12.0, 2.0)
    assert len(files) == 12 and sum(len(from_point_cloud(f).pos) for f in files) > 4000
    assert merge_tiles(files, tmp_path / "out.laz") == 4000
    out = from_point_cloud(tmp_path / "out.laz")
    order, other = out.number.argsort(), data.number.argsort()
    assert torch.equal(out.pos[order], data.pos[other]) and set(out.keys()) == set(data.keys())
    with pytest.raises(ValueError, match="no dimension 'core', this is no tile"):
        merge_tiles([path], tmp_path / "out.laz")
    assert len(from_point_cloud(tmp_path / "out.laz").pos) == 4000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 1.0, "margin": 2.0}, r"no smaller than their margin 2 \(got 1\)"),
        ({"size": -1.0}, "no smaller than their margin"),
        ({"margin": -1.0}, "Expected a finite 'margin'"),
        ({"margin": float("nan")}, "Expected a finite 'margin'"),
        ({"output": "a.ply"}, "Expected one of .las, .laz"),
        ({"output": "a.copc.laz"}, "Expected .las or .laz for an output written by tiles"),
        ({"output": "survey.laz"}, "would overwrite the input"),
        ({"memory": 0}, "positive number of bytes"),
        ({"bytes_per_point": 0}, "positive 'bytes_per_point'"),
        ({"function": lambda data: 3}, r"Expected a function that returns Data \(got int\)"),
        ({"function": lambda data: None}, "Expected a function that keeps a point"),
        ({"function": lambda d: type(d)(pos=d.pos[:3])}, "or 'core' in the result"),
    ],
)
def test_bad_arguments(survey_file, tmp_path, changes, message):
    path, _ = survey_file()
    given = {"function": smooth, "size": 10.0, "margin": 1.0, "output": "out.laz", **changes}
    given["output"] = tmp_path / given["output"]
    before = path.read_bytes()
    with pytest.raises((ValueError, TypeError), match=message):
        map_tiles(given.pop("function"), path, **given)
    assert [each.name for each in tmp_path.iterdir()] == ["survey.laz"]
    assert path.read_bytes() == before


def test_a_damaged_file_leaves_nothing(survey_file, tmp_path):
    path, _ = survey_file()
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(ValueError, match=r"survey.laz': Expected a point cloud"):
        map_tiles(smooth, path, 10.0, 1.0, tmp_path / "out.laz")
    assert [each.name for each in tmp_path.iterdir()] == ["survey.laz"]


@pytest.mark.slow
def test_a_disk_that_fills_up(survey_file, tmp_path):
    """Writing fails in the middle, as on a full disk: one error, and nothing is left."""
    path, _ = survey_file()
    code = (
        "import sys\nfrom permutogeo.tiles import map_tiles\n"
        "map_tiles(lambda d: d, sys.argv[1], 10.0, 1.0, sys.argv[2])"
    )

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "out.laz"],
        preexec_fn=limit, capture_output=True, text=True, cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "OSError: Expected room on the disk to write points" in done.stderr.splitlines()[-1]
    assert [each.name for each in tmp_path.iterdir()] == ["survey.laz"]


def test_results_do_not_depend_on_the_size_of_tiles(survey_file, tmp_path):
    path, _ = survey_file()
    found = []
    for size in (6.0, 11.0, 100.0):
        map_tiles(smooth, path, size, 4.0, tmp_path / "out.laz")
        out = from_point_cloud(tmp_path / "out.laz")
        found.append(out.smooth[out.number.argsort()].numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=0, atol=1e-12)
