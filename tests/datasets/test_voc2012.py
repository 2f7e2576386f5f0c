"""VOC 2012 from folder, tar and zip, and its unaries."""

import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.data import to_image
from permutogeo.datasets import VOC2012, voc2012
from permutogeo.datasets.voc2012 import interpolate_logits
from permutogeo.train import confusion, scores

VOC = "VOCdevkit/VOC2012"


def equal(a, b):
    return a.keys() == b.keys() and all(
        torch.equal(a[k], b[k]) if torch.is_tensor(a[k]) else a[k] == b[k] for k in a.to_dict()
    )


def test_voc_is_the_same_from_everywhere(tmp_path, voc, make):
    make.folder(tmp_path / "folder", voc)
    make.tar(tmp_path / "tar" / "voc2012" / voc2012.TAR, voc)
    inner = make.below(voc, VOC)
    make.zip(tmp_path / "zip" / "voc2012" / "val.zip",
              {n: c for n, c in inner.items() if "000001" in n})  # fmt: skip
    make.zip(tmp_path / "zip" / "voc2012" / "train.zip",
              {n: c for n, c in inner.items() if "000002" in n or "000000" in n})  # fmt: skip
    folder = VOC2012(tmp_path / "folder", "trainval")
    assert str(folder) == "VOC2012(3)"
    assert folder.names == ["2007_000002", "2007_000000", "2007_000001"]
    tar, archive = VOC2012(tmp_path / "tar", "trainval"), VOC2012(tmp_path / "zip", "trainval")
    assert tar.names == folder.names and sorted(archive.names) == sorted(folder.names)
    assert all(equal(a, b) for a, b in zip(folder, tar, strict=True))
    assert equal(folder[2], archive[2]) and archive.names[2] == "2007_000001"
    assert equal(VOC2012(tmp_path / "folder" / VOC, "val")[0], folder[2])
    # Nothing was unpacked.
    assert len(list((tmp_path / "tar").rglob("*"))) == 2


def test_voc_values(tmp_path, voc, make):
    make.folder(tmp_path, voc)
    dataset = VOC2012(tmp_path, "train")
    name = dataset.names[0]
    expected = np.asarray(Image.open(tmp_path / VOC / "JPEGImages" / f"{name}.jpg"))
    classes = np.asarray(Image.open(tmp_path / VOC / "SegmentationClass" / f"{name}.png"))
    data = dataset[0]
    np.testing.assert_allclose(data.x.view(6, 9, 3), expected / 255, atol=1e-6)
    assert np.array_equal(data.y.view(6, 9), classes) and data.y[0] == dataset.void
    assert data.name == name and (data.height, data.width) == (6, 9)
    np.testing.assert_allclose(to_image(data), expected / 255, atol=1e-6)
    np.testing.assert_allclose(dataset.image(0).permute(1, 2, 0), expected / 255, atol=1e-6)
    assert np.array_equal(dataset.label(0), classes)
    assert dataset.num_classes == 21 and dataset.classes[15] == "person"


def test_interpolate_logits_reproduces_a_plane():
    """Bilinear interpolation is exact for what is linear in the pixels of the resized image."""
    rows, columns, resized, size = 26, 33, (193, 257), (500, 375)
    y, x = np.meshgrid(8.0 * np.arange(rows), 8.0 * np.arange(columns), indexing="ij")
    logits = torch.from_numpy(np.stack([y, x, 2 * y - x], -1).astype(np.float32))
    full = interpolate_logits(logits, resized, size)
    assert full.shape == (3, 375, 500)
    expected_y = np.clip((np.arange(375) + 0.5) * 193 / 375 - 0.5, 0, 8 * (rows - 1))
    expected_x = np.clip((np.arange(500) + 0.5) * 257 / 500 - 0.5, 0, 8 * (columns - 1))
    np.testing.assert_allclose(full[0], np.repeat(expected_y[:, None], 500, 1), atol=1e-3)
    np.testing.assert_allclose(full[1], np.repeat(expected_x[None], 375, 0), atol=1e-3)
    np.testing.assert_allclose(full[2], 2 * full[0] - full[1], atol=2e-3)
    assert torch.equal(
        interpolate_logits(torch.ones(1, 1, 2), (5, 7), (14, 10)), torch.ones(2, 10, 14)
    )


def test_unary(tmp_path, voc, make):
    make.folder(tmp_path, voc)
    with pytest.raises(FileNotFoundError, match=r"with unary.*train_unary_deeplabv3_mnv2\.npz"):
        VOC2012(tmp_path, unary=True)
    stored = np.random.default_rng(0).standard_normal((2, 3, 21)).astype(np.float16)
    np.savez(tmp_path / "train_unary_deeplabv3_mnv2.npz", ids=["2007_000000"],
             resized_hw=[[9, 17]], **{"2007_000000": stored})  # fmt: skip
    dataset = VOC2012(tmp_path, unary=True)
    assert dataset.names == ["2007_000000"]
    expected = interpolate_logits(torch.from_numpy(stored.astype(np.float32)), (9, 17), (9, 6))
    assert torch.equal(dataset.unary(0), expected)
    assert torch.equal(dataset[0].unary, expected.reshape(21, -1).T)
    with pytest.raises(ValueError, match="Expected 'unary=True' when it was made"):
        VOC2012(tmp_path).unary(0)


def test_voc_itself(data_dir):
    assert [len(VOC2012(data_dir, s)) for s in ("train", "val")] == [61, 128]
    dataset = VOC2012(data_dir, "val", unary=True)
    with zipfile.ZipFile(data_dir / "voc2012" / "val.zip") as archive:
        for i in range(0, 128, 50):
            with archive.open(f"JPEGImages/{dataset.names[i]}.jpg") as file:
                expected = np.asarray(Image.open(file))
            assert np.array_equal((dataset.image(i) * 255).round().permute(1, 2, 0), expected)


def test_voc_unaries_reach_their_figures(data_dir):
    """Accuracy and mean IoU stated in the notes of the data: 0.874 and 0.525 over 14 classes."""
    dataset = VOC2012(data_dir, "train", unary=True)
    table = torch.zeros(21, 21, dtype=torch.int64)
    for i in range(len(dataset)):
        table += confusion(dataset.unary(i).argmax(0), dataset.label(i), 21, ignore=dataset.void)
    assert scores(table)["accuracy"] == pytest.approx(0.874, abs=6e-4)
    assert scores(table)["mean_iou"] == pytest.approx(0.525, abs=6e-4)
    assert int((table.sum(1) > 0).sum()) == 14


def test_wrong_labels(tmp_path, voc, make):
    path = tmp_path / "voc2012" / "train.zip"
    inner = make.below(voc, VOC)
    label = make.encoded(np.full((6, 9), 33, np.uint8), ".png", "P")
    make.zip(path, {**inner, "SegmentationClass/2007_000000.png": label})
    with pytest.raises(ValueError, match=r"classes of 2007_000000 below 21 or 255 \(got 33\)"):
        VOC2012(tmp_path)[0]
    make.tar(
        tmp_path / "tar" / voc2012.TAR,
        {**voc, f"{VOC}/ImageSets/Segmentation/train.txt": b"../../secret"},
    )
    with pytest.raises(ValueError, match=r"names of files within it \(got '../../secret'\)"):
        VOC2012(tmp_path / "tar")
