import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo.image import segment


def run(*args):
    return CliRunner().invoke(cli.app, ["segment", *map(str, args)])


@pytest.fixture
def files(tmp_path):
    """A picture of two halves, and scores that are right in two of three pixels."""
    rng = np.random.default_rng(0)
    truth = np.zeros((40, 60), np.int64)
    truth[:, 30:] = 2
    image = np.where(truth[..., None] == 2, 200, 60) + rng.integers(-4, 5, (40, 60, 3))
    image = image.astype(np.uint8)
    scores = rng.normal(size=(40, 60, 3)) + 0.9 * np.eye(3)[truth]
    Image.fromarray(image).save(tmp_path / "photo.png")
    np.save(tmp_path / "scores.npy", scores)
    return tmp_path, image, scores, truth


def test_labels_and_overlay(files):
    folder, image, scores, truth = files
    out, seen = folder / "labels.png", folder / "seen.png"
    result = run(
        folder / "photo.png", "--unary", folder / "scores.npy", "-o", out, "--overlay", seen
    )
    assert result.exit_code == 0, result.output
    assert "labels.png: 2 labels" in result.output
    with Image.open(out) as picture:
        assert picture.mode == "P"
        labels = np.asarray(picture)
    assert np.array_equal(labels, segment(image, scores.astype(np.float32)))
    assert (scores.argmax(2) == truth).mean() < 0.75
    assert (labels == truth).mean() > 0.99
    with Image.open(seen) as picture:
        assert np.asarray(picture).std() > 10
    assert {path.name for path in folder.iterdir()} == {
        "photo.png", "scores.npy", "labels.png", "seen.png"
    }  # fmt: skip


def test_kinds_and_layouts_agree(files):
    folder, _, scores, _ = files
    probabilities = np.exp(scores) / np.exp(scores).sum(2, keepdims=True)
    np.save(folder / "first.npy", np.moveaxis(scores, 2, 0))
    np.save(folder / "energy.npy", -scores)
    np.save(folder / "softmax.npy", probabilities)
    results = []
    for name, *options in [
        ("scores",),
        ("first", "--labels-first"),
        ("energy", "--kind", "energies"),
        ("softmax", "--kind", "probabilities"),
    ]:
        out = folder / "labels.png"
        given = (folder / "photo.png", "--unary", folder / f"{name}.npy", "-o", out)
        result = run(*given, *options)
        assert result.exit_code == 0, result.output
        with Image.open(out) as picture:
            results.append(np.asarray(picture))
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_scores_of_a_network_with_a_stride(files):
    _, image, _, truth = files
    coarse = np.eye(3)[truth[::8, ::8]]
    labels = segment(image, coarse, sigma_pos=20)
    assert (labels == truth).mean() > 0.99


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda path: path.write_bytes(b"not an array"),
            "Expected an array of numbers in the .npy format",
        ),
        (
            lambda path: np.save(path, np.zeros((4, 4))),
            "numbers [H, W, L] (got float64 of shape [4, 4])",
        ),
        (lambda path: np.save(path, np.full((40, 60, 3), np.nan)), "finite 'unary'"),
        (lambda path: np.save(path, np.zeros((3, 40, 60))), "labels come last"),
        (lambda path: np.save(path, np.array([{}], object), allow_pickle=True), "an array"),
    ],
)
def test_wrong_scores(files, write, message):
    folder = files[0]
    write(folder / "wrong.npy")
    out = folder / "labels.png"
    result = run(folder / "photo.png", "--unary", folder / "wrong.npy", "-o", out)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.startswith("Error: ")
    assert not out.exists()


def test_wrong_files(files):
    folder = files[0]
    scores = ("--unary", folder / "scores.npy")
    (folder / "text.png").write_text("no picture")
    for image, out, message in [
        ("missing.png", "labels.png", "missing.png"),
        ("text.png", "labels.png", "Expected an image"),
        ("photo.png", "labels.jpg", "Expected one of .png"),
        ("photo.png", "photo.png/labels.png", "Expected a folder to write to"),
    ]:
        result = run(folder / image, *scores, "-o", folder / out)
        assert result.exit_code == 1
        assert message in result.output


def test_nothing_is_overwritten(files):
    """Not the photograph, not the scores, not the labels by the overlay."""
    folder = files[0]
    photo, scores = folder / "photo.png", folder / "scores.npy"
    before = photo.read_bytes(), scores.read_bytes()
    for options, message in [
        (("-o", photo), f"The output '{photo}' would overwrite the input '{photo}'"),
        (("-o", folder / "l.png", "--overlay", photo), "would overwrite the input"),
        (("-o", folder / "l.png", "--overlay", folder / "l.png"), "would overwrite the output"),
    ]:
        result = run(photo, "--unary", scores, *options)
        assert result.exit_code == 1 and message in result.output
        assert result.output.count("\n") == 1
    assert (photo.read_bytes(), scores.read_bytes()) == before
    assert not (folder / "l.png").exists()


def test_scores_of_another_kind(files):
    folder, _, scores, _ = files
    photo, out = folder / "photo.png", folder / "labels.png"
    result = run(photo, "--unary", photo, "-o", out)
    assert result.output == f"Error: '{photo}': Expected one of .npy (got '.png')\n"
    np.save(folder / "two.npy", np.full(scores.shape, 2.0))
    result = run(photo, "--unary", folder / "two.npy", "-o", out, "--kind", "probabilities")
    assert result.exit_code == 1
    assert "Expected probabilities from 0 to 1 (got 2 to 2)" in result.output
    assert run(photo, "--unary", folder / "two.npy", "-o", out, "--kind", "odds").exit_code == 2


def test_images_are_opened_by_one_road(files):
    """Only raster formats, by their own suffix, and no huge ones."""
    folder = files[0]
    (folder / "page.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    Image.new("1", (20_000, 20_000)).save(folder / "bomb.png")
    for name, message in (("page", "Expected an image"), ("bomb", "pixels")):
        arguments = ("--unary", folder / "scores.npy", "-o", folder / "labels.png")
        result = run(folder / f"{name}.png", *arguments)
        assert result.exit_code == 1 and message in result.output
        assert result.output.startswith("Error: ") and result.output.count("\n") == 1
