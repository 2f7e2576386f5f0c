"""Points of a box from COPC and from sorted records."""

import errno
import shutil
from collections import namedtuple

import numpy as np
import pytest

from permutogeo.tiles.grid import Grid
from permutogeo.tiles.sources import check_free_space, is_copc, open_source


def make_grid(header):
    return Grid(np.asarray(header.mins), np.asarray(header.maxs), 9.0)


@pytest.mark.parametrize("name", ["a.las", "a.laz", "a.copc.laz"])
def test_a_box(survey_file, tmp_path, name):
    path, data = survey_file(name)
    assert is_copc(path) == ("copc" in name)
    low, high = np.array([5e5 + 3, 5.4e6 + 5]), np.array([5e5 + 21, 5.4e6 + 17])
    with open_source(path, make_grid, tmp_path / "out.laz") as (source, grid):
        assert len(list(source.cells())) == grid.shape[0] * grid.shape[1] == 5 * 4
        found = source.read(low, high, 10**6)
        assert source.read(low, high, len(found) - 1) is None
        hidden = [each for each in tmp_path.iterdir() if each.name.startswith(".out.laz.tiles.")]
        assert len(hidden) == ("copc" not in name)
    flat = data.pos[:, :2].numpy()
    inside = ((flat >= low) & (flat <= high)).all(axis=1)
    assert sorted(found["number"]) == sorted(data.number[inside].tolist())
    assert not any(each.name.startswith(".") for each in tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed(survey_file, tmp_path):
    path, _ = survey_file()
    old = tmp_path / ".out.laz.tiles.old"
    old.mkdir()
    (old / "lock").touch()
    with (
        open_source(path, make_grid, tmp_path / "out.laz"),
        open_source(path, make_grid, tmp_path / "out.laz"),  # of a living process: stays
    ):
        assert not old.exists()
        assert len(list(tmp_path.glob(".out*"))) == 2


def test_a_full_disk(survey_file, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")(10, 10, 0)
    path, _ = survey_file()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with (
        pytest.raises(OSError, match=r"Expected .* GB of free space in .* \(got 0.0 GB\)") as error,
        open_source(path, make_grid, tmp_path / "out.laz"),
    ):
        pass
    assert error.value.errno == errno.ENOSPC
    assert not list(tmp_path.glob(".out*"))
    check_free_space(tmp_path, 0)
