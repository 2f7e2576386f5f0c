"""Locating and downloading."""

import hashlib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from permutogeo.datasets import BSDS500, VOC2012, NYUDepth, bsds500, voc2012
from permutogeo.datasets.sources import Origin, read_arrays, read_mesh_names


@pytest.fixture
def server(tmp_path):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = partial(Quiet, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_download(tmp_path, voc, server, monkeypatch, make):
    make.tar(tmp_path / voc2012.TAR, voc)
    digest = hashlib.sha256((tmp_path / voc2012.TAR).read_bytes()).hexdigest()
    for url in (f"{server}/{voc2012.TAR}", (tmp_path / voc2012.TAR).as_uri()):
        folder = tmp_path / url[:4]
        monkeypatch.setattr(voc2012, "ORIGIN", Origin("a page", url, digest))
        with pytest.raises(FileNotFoundError, match="a page or give download=True"):
            VOC2012(folder)
        assert len(VOC2012(folder, "train", download=True)) == 2
        assert (folder / "voc2012" / voc2012.TAR).is_file()
        assert len(VOC2012(folder, "train")) == 2


def test_a_wrong_download_is_not_kept(tmp_path, server, monkeypatch):
    (tmp_path / "file").write_bytes(b"something else")
    origin = Origin("a page", f"{server}/file", "0" * 64)
    monkeypatch.setattr(bsds500, "ORIGIN", origin)
    with pytest.raises(ValueError, match=r"sha256 0000.* \(got [0-9a-f]{64}\); nothing was kept"):
        BSDS500(tmp_path / "a", download=True)
    monkeypatch.setattr(bsds500, "ORIGIN", Origin("a page", f"{server}/missing", "0" * 64))
    with pytest.raises(ConnectionError, match=r"Expected to download .*404.*put it at"):
        BSDS500(tmp_path / "a", download=True)
    left = [path.name for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert all(name.endswith(".lock") for name in left)


@pytest.mark.parametrize(
    ("dataset", "name"),
    [(VOC2012, "voc2012/train.zip"), (BSDS500, "bsds500/train.zip"),
     (NYUDepth, "nyu_depth_v2/train.zip")],
)  # fmt: skip
def test_nothing_found(dataset, name, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=rf"one of '{name}'.*{tmp_path}' without any.*http"):
        dataset(tmp_path)
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"PERMUTOGEO_DATA.*got neither.*Get it from http"):
        dataset()
    with pytest.raises(ValueError, match=r"Expected 'split' in train, .*got 'tset'"):
        dataset(tmp_path, split="tset")


def test_arrays_have_the_expected_shapes(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, v_cube=np.zeros((4, 3)), f_cube=np.zeros((2, 3)))
    assert set(read_arrays(path, {"v_cube": (None, 3)})) == {"v_cube"}
    assert read_mesh_names(path, "v_") == ["cube"]
    with pytest.raises(ValueError, match=r"'v_cube' of shape \['\*', 2\] \(got \[4, 3\]\)"):
        read_arrays(path, {"v_cube": (None, 2)})
    with pytest.raises(ValueError, match="Expected an archive with other"):
        read_arrays(path, {"other": (None,)})
    with pytest.raises(ValueError, match="Expected arrays named 'w_<mesh>'"):
        read_mesh_names(path, "w_")
