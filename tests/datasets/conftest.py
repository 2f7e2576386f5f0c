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


# A body model in which everything is random, but the body is a cube.
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
QUADS = np.array(
    [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]], np.uint16
)
SHAPES = ["caucasian-male-young", "l-leg-fat-incr", "r-leg-fat-incr", "l-leg-fat-decr"]


def body_arrays():
    """A body model in which everything is random, but the body is a cube."""
    rng = np.random.default_rng(0)
    weight = rng.random((8, 4))
    return {
        "vertices": CUBE,
        "quads": QUADS,
        "shape_name": np.array(SHAPES),
        "shape_offset": np.array([0, 3, 5, 5, 7], np.int32),
        "shape_gap": np.array([1, 2, 4, 0, 7, 3, 1], np.uint16),
        "shape_dxyz": rng.integers(-2000, 2000, (7, 3)).astype(np.int16),
        "bone_name": np.array(["root", "spine05", "upperleg01.L"]),
        "bone_parent": np.array([-1, 0, 1], np.int16),
        "joint": rng.random((3, 3), np.float32),
        "joint_dxyz": rng.integers(-2000, 2000, (4, 3, 3)).astype(np.int16),
        "skin_bone": rng.integers(0, 3, (8, 4)).astype(np.uint8),
        "skin_weight": (weight / weight.sum(axis=1, keepdims=True)).astype(np.float16),
    }


def write_body(folder, **changed):
    path = folder / "bodies" / "makehuman_body.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **{**body_arrays(), **changed})
    return path


@pytest.fixture
def body():
    """Arrays and faces of a body model, and a function that writes it to a file."""
    return SimpleNamespace(
        arrays=body_arrays, write=write_body, cube=CUBE, quads=QUADS, names=SHAPES
    )
