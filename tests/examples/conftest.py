"""A small generated data folder, laid out as the datasets that the examples read."""

import gzip
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import trimesh
from PIL import Image

FOLDER = Path(__file__).parents[2] / "examples"


def scene(rng, height, width):
    """Smooth color gradients with a few rectangles, ``[height, width, 3]`` uint8."""
    y, x = np.mgrid[:height, :width] / max(height, width)
    image = 255 * np.stack([0.2 + 0.6 * x, 0.3 + 0.4 * y, 0.8 - 0.5 * x * y], -1)
    for _ in range(6):
        top, left = rng.integers(height * 3 // 4), rng.integers(width * 3 // 4)
        image[top : top + height // 4, left : left + width // 4] = rng.integers(0, 256, 3)
    return (image + rng.normal(0, 3, image.shape)).clip(0, 255).astype(np.uint8)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write_bsds(root, rng):
    for part in ("train", "val", "test"):
        for number in range(2):
            path = root / "bsds500" / "BSDS500" / "data" / "images" / part / f"{number}.jpg"
            save(path, scene(rng, 112, 128))


def write_voc(root, rng):
    """Two classes beside the background, and the logits of a network that is often right."""
    folder = root / "voc2012" / "VOC2012"
    for part in ("train", "val"):
        names = [f"{part}_{number}" for number in range(4)]
        arrays = {"ids": np.array(names), "resized_hw": np.full((len(names), 2), 112)}
        for name in names:
            label = np.zeros((112, 112), np.uint8)
            label[20:70, 30:90], label[70:100, 10:60] = 8, 15
            image = scene(rng, 112, 112)
            image[label > 0] = image[label > 0] // 2 + 4 * label[label > 0, None]
            save(folder / "JPEGImages" / f"{name}.jpg", image)
            save(folder / "SegmentationClass" / f"{name}.png", label)
            coarse = label[::8, ::8]
            arrays[name] = 3 * np.eye(21)[coarse] + rng.normal(0, 1, (*coarse.shape, 21))
        (folder / "ImageSets" / "Segmentation").mkdir(parents=True, exist_ok=True)
        (folder / "ImageSets" / "Segmentation" / f"{part}.txt").write_text("\n".join(names))
        np.savez(root / "voc2012" / f"{part}_unary_deeplabv3_mnv2.npz", **arrays)


def write_minc(root, rng):
    folder = root / "minc" / "minc-s"
    (folder / "unary").mkdir(parents=True)
    (folder / "categories.txt").write_text("brick\nother\nwood\n")
    for split, first in (("train", 100), ("test", 200)):
        lines = []
        for photo in map(str, range(first, first + 4)):
            truth = np.where(np.arange(100) < 50, 0, 2)[None].repeat(100, 0)
            colors = np.where(truth[..., None] == 0, [160, 60, 40], [60, 120, 200])
            image = (colors + rng.integers(-9, 10, colors.shape)).astype(np.uint8)
            save(root / "minc" / "photo_orig" / photo[-1] / f"{photo}.jpg", image)
            for number, category in enumerate((0, 2)):
                save(folder / "segments" / f"{photo}_{number}.png", truth == category)
                lines.append(f"{category},{photo},{number}")
            logits = rng.normal(size=(25, 25, 3)) + np.eye(3)[truth[::4, ::4]]
            np.save(folder / "unary" / f"{photo}.npy", logits)
        (folder / f"{split}-segments.txt").write_text("\n".join(lines) + "\n")


def write_nyu(root, rng):
    """At full size, since the border of these images is cut at fixed pixels."""
    for part in ("train", "test"):
        for number in range(2):
            depth = scene(rng, 480, 640)[..., 0]
            depth[depth == 0] = 1
            save(root / "nyu_depth_v2" / part / "rgb" / f"{number}.jpg", scene(rng, 480, 640))
            save(root / "nyu_depth_v2" / part / "depth" / f"{number}.png", depth)


def write_labeled_meshes(root, rng):
    """Spheres and boxes as points with two parts each, and four meshes with labeled faces."""
    names, count, points = ("Ball", "Box"), 10, 256
    direction = rng.normal(size=(2 * count, points, 3))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    direction[count:] /= np.abs(direction[count:]).max(-1, keepdims=True) * np.sqrt(3)
    folder = root / "labeled_meshes"
    folder.mkdir()
    np.savez(
        folder / "points.npz",
        points=(2047 * direction).astype(np.int16),
        normals=(127 * direction).astype(np.int8),
        part=((direction[..., 2] > 0) + 2 * np.arange(2).repeat(count)[:, None]).astype(np.uint8),
        category=np.repeat(names, count),
        mesh_id=np.arange(2 * count).astype(np.int16),
        part_name=np.array([f"{name}/{half}" for name in names for half in ("lower", "upper")]),
    )
    arrays = {"part_name": np.array(["Human/lower", "Human/upper"])}
    for number in range(8):
        mesh = trimesh.creation.icosphere(3)
        vertices = np.asarray(mesh.vertices) * rng.uniform(0.5, 1.5, 3)
        arrays[f"v_{number}"], arrays[f"f_{number}"] = vertices.astype(np.float32), mesh.faces
        arrays[f"y_{number}"] = (vertices[mesh.faces].mean(1)[:, 2] > 0).astype(np.uint8)
    np.savez(folder / "human_fourleg_meshes.npz", **arrays)


def write_princeton(root, rng):
    """Points on spheres of two proportions."""
    count = 32
    label = np.arange(count) % 2
    direction = rng.normal(size=(count, 128, 3))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    direction[label == 1, :, 2] *= 0.3
    classes = np.array(["ball", "disk"])[label]
    (root / "psb").mkdir()
    np.savez(
        root / "psb" / "psb_points.npz",
        points=(2047 * direction).astype(np.int16),
        is_test=np.arange(count) >= count // 2,
        model_id=np.arange(count),
        **dict.fromkeys(("base", "coarse1", "coarse2"), classes),
    )


def write_open_meshes(root, rng):
    """One mesh to train on and one that is held out."""
    arrays = {}
    for name in ("spot_low_resolution", "wingnut"):
        mesh = trimesh.creation.icosphere(4)
        vertices = np.asarray(mesh.vertices) * rng.uniform(0.6, 1.4, 3)
        arrays[f"v_{name}"], arrays[f"f_{name}"] = vertices.astype(np.float32), mesh.faces
    (root / "meshes").mkdir()
    np.savez(root / "meshes" / "open_meshes.npz", **arrays)


def write_assamese(root, rng):
    """Six characters by 45 writers: polygons with random corners."""
    writers, characters, corners = 45, 6, 8
    count = writers * characters
    (root / "assamese").mkdir()
    np.savez(
        root / "assamese" / "assamese.npz",
        xy=rng.integers(0, 4400, (count * corners, 2)).astype(np.int16),
        stroke=np.tile(np.arange(corners) // 4 + 1, count).astype(np.uint8),
        offset=(corners * np.arange(count + 1)).astype(np.int32),
        writer=np.repeat(np.arange(1, writers + 1), characters).astype(np.uint8),
        char_id=np.tile(np.arange(1, characters + 1), writers).astype(np.uint8),
        char_name=np.array(list("ABCDEF")),
    )


def write_mnist(root, rng):
    """As many training digits as the validation part holds, and a few more; most are empty."""
    (root / "mnist").mkdir()
    for part, count in (("train", 5064), ("t10k", 64)):
        digits, classes = np.zeros((count, 28, 28), np.uint8), np.arange(count) % 10
        for number in (*range(64), *range(count - 64, count)):
            low = 2 + classes[number]
            digits[number, low : low + 12, 6:20] = rng.integers(128, 256, (12, 14))
        for kind, array in (("images-idx3", digits), ("labels-idx1", classes.astype(np.uint8))):
            head = np.array([2048 + array.ndim, *array.shape], ">i4").tobytes()
            with gzip.open(root / "mnist" / f"{part}-{kind}-ubyte.gz", "wb", 1) as file:
                file.write(head + array.tobytes())


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """The folder, to be named by PERMUTOGEO_DATA."""
    root = tmp_path_factory.mktemp("data")
    for write in (
        write_bsds,
        write_voc,
        write_minc,
        write_nyu,
        write_labeled_meshes,
        write_princeton,
        write_open_meshes,
        write_assamese,
        write_mnist,
    ):
        write(root, np.random.default_rng(0))
    return root


@pytest.fixture(scope="module")
def examples():
    """A function that imports an example, or a module that examples share, by its name."""
    folders = [str(FOLDER), str(FOLDER / "paper")]
    sys.path[:0] = folders
    yield importlib.import_module
    for folder in folders:
        sys.path.remove(folder)


@pytest.fixture(scope="session")
def run_script():
    """A function that runs a script on one thread with a folder of data.

    The imports, four seconds of processor time, are not repeated for each script.
    """
    command = [sys.executable, str(Path(__file__).with_name("script_server.py"))]
    variables = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=variables, **pipes) as server:

        def run(path, *arguments, cwd, data):
            out, err = (cwd.with_name(f"{cwd.name}.{kind}") for kind in ("out", "err"))
            request = {"path": str(path), "arguments": arguments, "folder": str(cwd)}
            request |= {"variables": {"PERMUTOGEO_DATA": str(data)}}
            request |= {"out": str(out), "err": str(err)}
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            code, seconds = json.loads(server.stdout.readline())
            texts = {"stdout": out.read_text(), "stderr": err.read_text()}
            return SimpleNamespace(returncode=code, seconds=seconds, **texts)

        yield run
    assert server.returncode == 0


@pytest.fixture
def run_quickly(run_script):
    """A function that runs an example with ``--quick``.

    It takes 15 seconds of processor time at most, four of them for the imports.
    """

    def run(path, *arguments, cwd, data):
        done = run_script(path, "--quick", *arguments, cwd=cwd, data=data)
        assert done.seconds < 11
        return done

    return run
