"""Downloads, and archives that are damaged or mean harm."""

import hashlib
import tarfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from permutogeo.datasets import BSDS500, VOC2012, NYUDepth, bsds500, voc2012
from permutogeo.datasets._images import Origin

VOC = "VOCdevkit/VOC2012"


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


# Errors


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


def test_damaged_and_hostile_archives(tmp_path, voc, make):
    path = tmp_path / "voc2012" / "train.zip"
    inner = make.below(voc, VOC)
    make.zip(path, {**inner, "../../outside.jpg": b"x"})
    with pytest.raises(ValueError, match=r"names of files within it \(got '../../outside.jpg'\)"):
        VOC2012(tmp_path)
    path.write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"train\.zip': Expected a zip archive"):
        VOC2012(tmp_path)
    make.zip(path, {"readme.txt": b"text"})
    with pytest.raises(FileNotFoundError, match="Expected images in"):
        VOC2012(tmp_path)
    make.zip(path, {**inner, "JPEGImages/2007_000000.jpg": b"no image"})
    with pytest.raises(ValueError, match=r"an image 'JPEGImages/2007_000000\.jpg'"):
        VOC2012(tmp_path)[0]
    label = make.encoded(np.full((6, 9), 33, np.uint8), ".png", "P")
    make.zip(path, {**inner, "SegmentationClass/2007_000000.png": label})
    with pytest.raises(ValueError, match=r"classes of 2007_000000 below 21 or 255 \(got 33\)"):
        VOC2012(tmp_path)[0]
    label = make.encoded(make.labels((4, 4)), ".png", "P")
    make.zip(path, {**inner, "SegmentationClass/2007_000000.png": label})
    with pytest.raises(ValueError, match=r"'y' of 2007_000000 for 9 x 6 pixels \(got 16 values\)"):
        VOC2012(tmp_path)[0]


def test_damaged_and_hostile_tars_and_lists(tmp_path, voc, make):
    path = tmp_path / voc2012.TAR
    make.tar(path, {"/etc/passwd": b"x"})
    with pytest.raises(ValueError, match="names of files within it"):
        VOC2012(tmp_path)
    path.write_bytes(b"no tar" * 200)
    with pytest.raises(ValueError, match="Expected a tar archive"):
        VOC2012(tmp_path)
    make.tar(path, {**voc, f"{VOC}/ImageSets/Segmentation/train.txt": b"../../secret"})
    with pytest.raises(ValueError, match=r"names of files within it \(got '../../secret'\)"):
        VOC2012(tmp_path)
    make.tar(path, {**voc, f"{VOC}/ImageSets/Segmentation/train.txt": b"2007_9"})
    with pytest.raises(FileNotFoundError, match=r"the file '.*2007_9\.jpg' in it"):
        VOC2012(tmp_path)[0]
    make.tar(path, voc)
    path.write_bytes(path.read_bytes()[:2048])
    with pytest.raises((ValueError, FileNotFoundError), match=voc2012.TAR):
        VOC2012(tmp_path)[0]


def test_a_link_in_a_tar_is_not_followed(tmp_path, voc, make):
    path = tmp_path / voc2012.TAR
    make.tar(path, {n: c for n, c in voc.items() if not n.endswith("000000.jpg")})
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo(f"{VOC}/JPEGImages/2007_000000.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    with pytest.raises(FileNotFoundError, match=r"2007_000000\.jpg' in it"):
        VOC2012(tmp_path)[1]
