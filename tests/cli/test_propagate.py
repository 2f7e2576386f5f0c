import numpy as np
import pytest
from PIL import Image

from permutogeo.data import from_mesh, to_mesh
from permutogeo.image import colorize, propagate_labels


@pytest.fixture
def photo(tmp_path):
    """Two halves, and a click in each."""
    rng = np.random.default_rng(0)
    truth = np.zeros((40, 60), np.uint8)
    truth[:, 30:] = 2
    image = np.where(truth[..., None] == 2, 200, 60) + rng.integers(-4, 5, (40, 60, 3))
    Image.fromarray(image.astype(np.uint8)).save(tmp_path / "photo.png")
    clicks = np.full((40, 60), 255, np.uint8)
    clicks[5, 5], clicks[30, 50] = 0, 2
    Image.fromarray(clicks).save(tmp_path / "clicks.png")
    return tmp_path, image.astype(np.uint8), truth, clicks


def test_labels_of_an_image(run, photo):
    folder, image, truth, clicks = photo
    out, seen = folder / "out" / "labels.png", folder / "seen.png"
    result = run(
        "propagate", folder / "photo.png", "--labels", folder / "clicks.png", "-o", out,
        "--overlay", seen,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "labels.png: 2 labels from 2" in result.output
    with Image.open(out) as picture:
        labels = np.asarray(picture)
    assert np.array_equal(labels, truth) and seen.is_file()
    sparse = np.where(clicks == 255, -1, clicks.astype(np.int64))
    assert np.array_equal(labels, propagate_labels(image, sparse))
    np.save(folder / "clicks.npy", sparse)
    arguments = ["--labels", folder / "clicks.npy", "-o", folder / "labels.npy", "--hard"]
    assert run("propagate", folder / "photo.png", *arguments).exit_code == 0
    assert np.array_equal(np.load(folder / "labels.npy"), truth)


def test_an_image_without_unlabeled_pixels(run, photo):
    """Zeros that were meant as no label are labels; the output says how to change that."""
    folder, _, truth, _ = photo
    Image.fromarray(truth).save(folder / "full.png")
    result = run(
        "propagate", folder / "photo.png", "--labels", folder / "full.png", "-o", folder / "a.png"
    )
    assert result.exit_code == 0 and "--unlabeled INDEX" in result.output


def test_colors_of_an_image(run, photo):
    folder, image, _, _ = photo
    gray = image.mean(2).astype(np.uint8)
    Image.fromarray(gray).save(folder / "gray.png")
    scribbles = np.zeros((40, 60, 4), np.uint8)
    scribbles[5, 4:9], scribbles[30, 50:54] = (90, 40, 40, 255), (180, 200, 220, 255)
    Image.fromarray(scribbles).save(folder / "scribbles.png")
    out = folder / "colored.png"
    result = run("propagate", folder / "gray.png", "--colors", folder / "scribbles.png", "-o", out)
    assert result.exit_code == 0, result.output
    with Image.open(out) as picture:
        found = np.asarray(picture).astype(int)
    expected = colorize(gray, scribbles[..., :3], scribbles[..., 3] > 0)
    assert np.abs(found - expected).max() <= 1
    assert (found[:, :28, 0] > found[:, :28, 2]).all() and (found[:, 32:, 2] > 190).all()


def test_labels_of_a_scan(run, tmp_path, cube):
    """A click on each of two opposite sides of a cube."""
    data = cube(4)
    to_mesh(data, tmp_path / "scan.ply")
    (tmp_path / "clicks.txt").write_text(
        "0.5 0 0 0\n-0.5 0 0 1\n0 0.5 0 2\n0 -0.5 0 2\n0 0 0.5 2\n"
    )
    out = tmp_path / "labeled.ply"
    arguments = ["--labels", tmp_path / "clicks.txt", "-o", out]
    result = run("propagate", tmp_path / "scan.ply", *arguments)
    assert result.exit_code == 0, result.output
    labeled = from_mesh(out)
    inside = (labeled.pos[:, 1:].abs() < 0.45).all(1)
    assert (labeled.label[inside & (labeled.pos[:, 0] > 0.49)] == 0).all()
    assert (labeled.label[inside & (labeled.pos[:, 0] < -0.49)] == 1).all()
    np.save(tmp_path / "label.npy", np.where(np.arange(data.num_nodes) == 3, 4, -1))
    arguments = ["--labels", tmp_path / "label.npy", "-o", tmp_path / "all.npy"]
    assert run("propagate", tmp_path / "scan.ply", *arguments).exit_code == 0
    assert (np.load(tmp_path / "all.npy") == 4).all()


def test_large_labels_and_a_byte_order_mark(run, photo, cube):
    """Memory depends on the number of different labels; a mark before the first row is skipped."""
    folder, _, truth, clicks = photo
    sparse = np.where(clicks == 255, -1, clicks.astype(np.int64) * 500_000_000)
    np.save(folder / "large.npy", sparse)
    arguments = ["--labels", folder / "large.npy", "-o", folder / "out.npy"]
    assert run("propagate", folder / "photo.png", *arguments).exit_code == 0
    assert np.array_equal(np.load(folder / "out.npy"), truth.astype(np.int64) * 500_000_000)
    to_mesh(cube(1), folder / "scan.ply")
    (folder / "clicks.txt").write_bytes(b"\xef\xbb\xbf0.5 0 0 1000000000\n")
    arguments = ["--labels", folder / "clicks.txt", "-o", folder / "scan.npy"]
    result = run("propagate", folder / "scan.ply", *arguments)
    assert result.exit_code == 0, result.output
    assert (np.load(folder / "scan.npy") == 1_000_000_000).all()


MISTAKES = [
    (["photo.png", "-o", "x.png"], "either --labels or --colors"),
    (["photo.png", "--labels", "empty.npy", "-o", "x.png"], "at least one label"),
    (["photo.png", "--labels", "small.npy", "-o", "x.png"], "40 x 60 pixels"),
    (["photo.png", "--labels", "photo.png", "-o", "x.png"], "image of indices"),
    (["photo.png", "--labels", "clicks.png", "-o", "clicks.png"], "overwrite"),
    (["photo.png", "--colors", "clicks.png", "-o", "x.png"], "transparency"),
    (["photo.png", "--labels", "clicks.png", "-o", "x.png", "--lam", "0"], "--lam greater than 0"),
    (["scan.ply", "--colors", "photo.png", "-o", "x.ply"], "--labels alone"),
    (["scan.ply", "--labels", "bad.txt", "-o", "x.ply"], "x y z label"),
    (["scan.ply", "--labels", "small.txt", "-o", "x.ply"], "x y z label"),
    (["scan.ply", "--labels", "uneven.txt", "-o", "x.ply"], "row 1 has 4 numbers, the first has 3"),
    (["scan.ply", "--labels", "comma.txt", "-o", "x.ply"], "decimal comma"),
    (["photo.png", "--labels", "none.png", "-o", "x.png"], "'none.png': Expected at least one"),
    (["photo.png", "--labels", "minus.npy", "-o", "x.png"], "'minus.npy': Expected labels of at"),
    (["photo.png", "--labels", "real.npy", "-o", "x.png"], "got float64 of shape [40, 60]"),
    (["photo.png", "--labels", "claim.npy", "-o", "x.png"], "'claim.npy': Expected an array"),
    (["photo.png", "--labels", "eps.png", "-o", "x.png"], "'eps.png': Expected"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda x: str(x)[:24])
def test_mistakes_end_in_one_line(run, photo, cube, monkeypatch, arguments, message):
    folder = photo[0]
    monkeypatch.chdir(folder)
    to_mesh(cube(1), folder / "scan.ply")
    np.save("empty.npy", np.full((40, 60), -1))
    np.save("small.npy", np.zeros((4, 6), np.int64))
    (folder / "bad.txt").write_text("a b\n")
    (folder / "small.txt").write_text("0 0 0 -3\n")
    (folder / "uneven.txt").write_text("0 0 0\n0 0 0 1\n")
    (folder / "comma.txt").write_text("0,5 0,5 0,5 1\n")
    Image.fromarray(np.full((40, 60), 255, np.uint8)).save("none.png")
    np.save("minus.npy", np.full((40, 60), -7))
    np.save("real.npy", np.full((40, 60), 0.5))
    content = (folder / "small.npy").read_bytes()
    (folder / "claim.npy").write_bytes(content.replace(b"(4, 6)", b"(4, 9999999999999)"))
    (folder / "eps.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 60 40\n")
    result = run("propagate", *arguments)
    assert result.exit_code == 1 and message in result.output
    assert not (folder / "x.png").exists() and not (folder / "x.ply").exists()
