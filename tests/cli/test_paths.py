"""Checks of paths, and which output belongs to which input."""

import os

import pytest

from permutogeo.cli import paths
from permutogeo.cli.paths import DenoiseJob, check_output, check_overwrite, files_in, plan_denoising
from permutogeo.data import mesh, pixels, point_cloud


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def test_suffixes_are_those_of_the_readers_and_writers():
    assert set(paths.MESH_SUFFIXES) == set(mesh.READERS) == set(mesh.WRITERS)
    assert set(paths.CLOUD_SUFFIXES) == set(point_cloud.WRITERS)
    readable = {*paths.CLOUD_SUFFIXES, *paths.READ_ONLY_SUFFIXES}
    assert readable == set(point_cloud.READERS)
    assert paths.IMAGE_SUFFIXES == pixels.READABLE
    assert paths.IMAGE_OUTPUT_SUFFIXES == pixels.WRITABLE


def test_folders_are_searched_to_their_depth(tmp_path):
    expected = [touch(tmp_path / name) for name in ("a.ply", "deep/er/B.OBJ", "deep/c.stl")]
    for name in ("notes.txt", ".hidden.ply", "deep/.git/d.ply", "array.npy", "out/e.ply"):
        touch(tmp_path / name)
    assert files_in(tmp_path, skip=[tmp_path / "out"]) == sorted(expected)
    with pytest.raises(ValueError, match=r"in '.*git' \(found none\)"):
        files_in(tmp_path / "deep" / ".git", skip=[tmp_path / "deep" / ".git"])


def test_files_of_a_folder_keep_their_places(tmp_path):
    scans = tmp_path / "scans"
    first, second, other = (
        touch(path) for path in (scans / "a.ply", scans / "deep" / "a.ply", tmp_path / "b.obj")
    )
    out, pages = tmp_path / "new" / "out", tmp_path / "pages"
    jobs = plan_denoising([scans, other], out, pages, None)
    assert jobs == [
        DenoiseJob(first, out / "a.ply", pages / "a.ply.html"),
        DenoiseJob(second, out / "deep" / "a.ply", pages / "deep" / "a.ply.html"),
        DenoiseJob(other, out / "b.obj", pages / "b.obj.html"),
    ]
    assert jobs[1].outputs[2] == pages / "deep" / "a.ply.png"
    assert not out.exists() and not pages.exists()


def test_scans_that_are_only_read_become_laz(tmp_path):
    scan = touch(tmp_path / "in" / "a.e57")
    out = tmp_path / "out"
    assert plan_denoising([tmp_path / "in"], out, None, None) == [DenoiseJob(scan, out / "a.laz")]
    with pytest.raises(ValueError, match=r"Expected one of .* \(got '.e57'\)"):
        plan_denoising([scan], tmp_path / "b.e57", None, None)


def test_outputs_inside_the_input_folder_are_no_inputs(tmp_path):
    scan, out = touch(tmp_path / "a.ply"), tmp_path / "out"
    touch(out / "a.ply")
    assert plan_denoising([tmp_path], out, None, None) == [DenoiseJob(scan, out / "a.ply")]


@pytest.mark.parametrize("name", ["new/clean.ply", "new/", "new"])
def test_one_input(tmp_path, name):
    """A name without suffix is a folder; folders need not exist."""
    scan = touch(tmp_path / "scan.ply")
    (job,) = plan_denoising([scan], tmp_path / name, None, None)
    named = "clean.ply" if name.endswith("ply") else "scan.ply"
    assert job.target == tmp_path / "new" / named


def test_an_output_is_checked(tmp_path):
    file = touch(tmp_path / "a.ply")
    check_output(tmp_path / "new" / "b.ply", (".ply",))
    for path, error, message in (
        (tmp_path / "b.pt", ValueError, r"Expected one of .ply \(got '.pt'\)"),
        (file / "b.ply", NotADirectoryError, "Expected a folder to write to"),
    ):
        with pytest.raises(error, match=message):
            check_output(path, (".ply",))
    (tmp_path / "folder.ply").mkdir()
    with pytest.raises(ValueError, match=r"Expected a file \(got a directory"):
        check_output(tmp_path / "folder.ply", (".ply",))


def test_nothing_is_overwritten(tmp_path):
    scan, new = touch(tmp_path / "scan.ply"), tmp_path / "new.ply"
    link, hard = tmp_path / "link.ply", tmp_path / "hard.ply"
    link.symlink_to(scan), os.link(scan, hard)
    for path in (scan, link, hard, tmp_path / "." / "scan.ply"):
        with pytest.raises(ValueError, match=r"The output .* would overwrite the input"):
            check_overwrite([scan], [(path, scan)])
    with pytest.raises(ValueError, match=r"would overwrite the output '.*new\.ply'"):
        check_overwrite([scan], [(new, scan), (tmp_path / "." / "new.ply", scan)])
    with pytest.raises(
        ValueError, match=r"outputs of '.*scan.ply' and '.*other.ply' have the same"
    ):
        check_overwrite([], [(new, scan), (new, tmp_path / "other.ply")])
    check_overwrite([scan], [(new, scan)])
