import io
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

RNG = np.random.default_rng(0)
VOC = "VOCdevkit/VOC2012"
BSDS = "BSR/BSDS500/data/images"


def encoded(array, suffix, mode=None):
    file = io.BytesIO()
    image = Image.fromarray(array)
    if mode == "P":
        image.putpalette(RNG.integers(0, 256, 768).astype(np.uint8).tobytes())
    image.save(file, {".png": "PNG", ".jpg": "JPEG"}[suffix])
    return file.getvalue()


def photograph(suffix=".jpg", shape=(6, 9)):
    return encoded(RNG.integers(0, 256, (*shape, 3)).astype(np.uint8), suffix)


def labels(shape=(6, 9)):
    array = RNG.integers(0, 21, shape).astype(np.uint8)
    array[0, 0] = 255
    return array


def write_zip(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_tar(path, files, mode="w"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def write_folder(path, files):
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


@pytest.fixture
def voc():
    """The files of an original with three images, one of them without classes."""
    files = {f"{VOC}/JPEGImages/2007_00000{i}.jpg": photograph() for i in range(4)}
    for i in range(3):
        files[f"{VOC}/SegmentationClass/2007_00000{i}.png"] = encoded(labels(), ".png", "P")
    files[f"{VOC}/ImageSets/Segmentation/train.txt"] = b"2007_000002\n2007_000000\n"
    files[f"{VOC}/ImageSets/Segmentation/val.txt"] = b"2007_000001\n"
    return files


@pytest.fixture
def bsds():
    return {
        f"{BSDS}/{part}/{name}.jpg": photograph(shape=shape)
        for part, name, shape in [
            *[("train", "20", (6, 9)), ("train", "100", (9, 6))],
            *[("val", "7", (6, 9)), ("test", "8", (6, 9))],
        ]
    } | {f"{BSDS}/test/Thumbs.db": b"no image", "BSR/documentation/README.txt": b"text"}


def below(files, prefix):
    start = f"{prefix}/"
    return {n.removeprefix(start): c for n, c in files.items() if n.startswith(start)}


@pytest.fixture
def make():
    """Pictures as files, and places to put files in."""
    return SimpleNamespace(
        encoded=encoded,
        photograph=photograph,
        labels=labels,
        zip=write_zip,
        tar=write_tar,
        folder=write_folder,
        below=below,
    )
