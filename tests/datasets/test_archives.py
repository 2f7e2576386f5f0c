"""Damaged and hostile archives."""

import gzip
import io
import lzma
import os
import tarfile
import tracemalloc
import zipfile
from contextlib import contextmanager

import pytest

from permutogeo.datasets import VOC2012, archives, voc2012
from permutogeo.datasets.archives import open_files

VOC = "VOCdevkit/VOC2012"


@pytest.mark.parametrize("kind", ["folder", "a.zip", "a.tar", "a.tgz"])
def test_files_are_the_same_from_everywhere(kind, tmp_path, make):
    files = {"in/a.txt": b"A", "in/b.txt": b"B" * 5000, "in/deep/c.txt": b"C", "in/.d.txt": b"D"}
    path = tmp_path / kind
    if kind == "folder":
        make.folder(path, files)
        path = path / "in"
    elif kind == "a.zip":
        make.zip(path, files)
    else:
        make.tar(path, files, "w:gz" if kind == "a.tgz" else "w")
    found = open_files(path, "in")
    assert found.stems("", ".txt") == ["a", "b"] and found.stems("deep", ".txt") == ["c"]
    assert found.read("b.txt") == b"B" * 5000 and found.read("deep/c.txt") == b"C"
    with pytest.raises(FileNotFoundError, match=r"Expected the file 'e\.txt' in it"):
        found.read("e.txt")
    with pytest.raises(ValueError, match=r"names of files within it \(got '\.\./a\.txt'\)"):
        found.read("../a.txt")


def test_damaged_and_hostile_zips(tmp_path, voc, make):
    path = tmp_path / "voc2012" / "train.zip"
    make.zip(path, {**make.below(voc, VOC), "../../outside.jpg": b"x"})
    with pytest.raises(ValueError, match=r"names of files within it \(got '../../outside.jpg'\)"):
        VOC2012(tmp_path)
    path.write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"train\.zip': Expected a zip archive"):
        VOC2012(tmp_path)


def test_damaged_and_hostile_tars(tmp_path, voc, make):
    path = tmp_path / voc2012.TAR
    make.tar(path, {"/etc/passwd": b"x"})
    with pytest.raises(ValueError, match="names of files within it"):
        VOC2012(tmp_path)
    path.write_bytes(b"no tar" * 200)
    with pytest.raises(ValueError, match="Expected a tar archive"):
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


@contextmanager
def little_memory(limit):
    """Fail if the block allocates more bytes at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def test_a_compressed_tar_of_many_files_is_refused(tmp_path, monkeypatch):
    """Each file is allowed, all together are not."""
    path = tmp_path / "bomb.tgz"
    zeros = bytes(1 << 20)
    with gzip.open(path, "wb", compresslevel=1) as file:
        for i in range(40):
            file.write(header(f"{i}.jpg", len(zeros)) + zeros)
        file.write(bytes(1024))
    monkeypatch.setattr(archives, "_MAX_HELD", 10 << 20)
    with (
        little_memory(13 << 20),
        pytest.raises(ValueError, match=r"at most 10,485,760 bytes of fi"),
    ):
        open_files(path)
    assert open_files(path, "other").stems("", ".jpg") == [], (
        "files that are not wanted are skipped"
    )


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_large_extended_header_is_refused(kind, tmp_path, monkeypatch):
    path = tmp_path / "bomb.tgz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header("x", 64 << 20, kind) + bytes(64 << 20))
        file.write(header("a.jpg", 0) + bytes(1024))
    monkeypatch.setattr(archives, "_MAX_FILE", 1 << 20)
    with little_memory(4 << 20), pytest.raises(ValueError, match=r"bomb.tgz': Expected headers of"):
        open_files(path)


def test_a_large_header_is_refused_in_pieces(tmp_path, monkeypatch):
    """Some versions of Python read headers in pieces, each of an allowed size."""
    monkeypatch.setattr(archives, "_MAX_FILE", 100)
    stream = archives._BoundedStream(tmp_path / "a.tar", io.BytesIO(bytes(400)))
    for _ in range(2):
        assert len(stream.read(60)) == 60
        stream.seek(stream.tell())
    stream.read(60)
    with pytest.raises(ValueError, match=r"a.tar': Expected headers of .* \(got 120\)"):
        stream.read(60)


def test_headers_of_many_empty_files_are_allowed(tmp_path, make, monkeypatch):
    """Headers are bounded for each file: tarfile does not seek between empty ones."""
    make.tar(tmp_path / "a.tar", {f"{i}.jpg": b"" for i in range(100)})
    monkeypatch.setattr(archives, "_MAX_FILE", 1 << 14)
    assert len(open_files(tmp_path / "a.tar").stems("", ".jpg")) == 100


def test_a_zip_that_holds_more_than_it_says(tmp_path):
    """A member that says 10 bytes and inflates to 64 MB is not inflated."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", bytes(64 << 20))
    size = (64 << 20).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    with little_memory(4 << 20), pytest.raises(ValueError, match=r"Expected a whole file 'a\.jpg'"):
        open_files(path).read("a.jpg")


def test_zip_members_are_stored_or_deflated(tmp_path):
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
            archive.writestr("a.jpg", b"x")
        with pytest.raises(
            ValueError, match=r"a whole file 'a.jpg' .it is neither stored nor defl"
        ):
            open_files(tmp_path / "a.zip").read("a.jpg")


def test_many_members_are_refused(tmp_path, make, monkeypatch):
    make.tar(tmp_path / "a.tar", {f"{i}.jpg": b"" for i in range(20)})
    assert len(open_files(tmp_path / "a.tar").stems("", ".jpg")) == 20
    monkeypatch.setattr(archives, "_MAX_FILES", 19)
    with pytest.raises(ValueError, match="Expected at most 19 files"):
        open_files(tmp_path / "a.tar")
    monkeypatch.setattr(archives, "_MAX_FILES", 20)
    monkeypatch.setattr(archives, "_MAX_STREAM", 5000)
    with pytest.raises(ValueError, match="Expected an archive of at most 5,000 bytes"):
        open_files(tmp_path / "a.tar")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_a_tar_of_the_current_folder(mode, tmp_path, make):
    """What `tar cf x.tar .` writes, compressed or not, whatever its suffix."""
    make.folder(tmp_path / "in", {"deep/a.jpg": b"A", "b.jpg": b"B"})
    with tarfile.open(tmp_path / "x.tar", mode) as archive:
        archive.add(tmp_path / "in", ".")
    found = open_files(tmp_path / "x.tar")
    assert found.stems("", ".jpg") == ["b"] and found.stems("deep", ".jpg") == ["a"]
    assert found.read("b.jpg") == b"B"
    assert open_files(tmp_path / "x.tar", "deep").read("a.jpg") == b"A"


@pytest.mark.parametrize("opener", [gzip.open, lzma.open])
def test_damaged_compression(opener, tmp_path, make):
    make.tar(tmp_path / "whole.tar", {"a.jpg": os.urandom(5000)})
    packed = io.BytesIO()
    with opener(packed, "wb") as file:
        file.write((tmp_path / "whole.tar").read_bytes())
    content = packed.getvalue()
    for damaged in (content[:-200], content[:500] + b"damage" * 20 + content[620:], content[:20]):
        (tmp_path / "x.tar").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"x\.tar': Expected a tar archive"):
            open_files(tmp_path / "x.tar")


def test_sparse_files_and_absolute_names_are_not_read(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("a.jpg")
        info.type = tarfile.GNUTYPE_SPARSE
        archive.addfile(info)
    assert open_files(tmp_path / "a.tar").stems("", ".jpg") == []
    for name in ("/", "/a.jpg", "..", "../a.jpg", "a/../../b.jpg", "./../a.jpg"):
        with tarfile.open(tmp_path / "b.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo(name))
        with pytest.raises(ValueError, match="names of files within it"):
            open_files(tmp_path / "b.tar")
