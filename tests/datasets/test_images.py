import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.loader import DataLoader

from permutogeo.data import to_image
from permutogeo.datasets import BSDS500, VOC2012, NYUDepth, bsds500, nyu_depth, voc2012
from permutogeo.datasets.voc2012 import enlarge
from permutogeo.train import confusion, scores
from permutogeo.transforms import BilateralFeature

VOC = "VOCdevkit/VOC2012"
BSDS = "BSR/BSDS500/data/images"


def equal(a, b):
    return a.keys() == b.keys() and all(
        torch.equal(a[k], b[k]) if torch.is_tensor(a[k]) else a[k] == b[k] for k in a.to_dict()
    )


# Where the images are


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


def test_a_part_of_a_dataset_keeps_its_places(tmp_path, voc, make):
    make.folder(tmp_path, voc)
    dataset = VOC2012(tmp_path, "trainval", transform=BilateralFeature(pos=2.0, intensity=0.3))
    part = dataset[1:]
    assert part.names == dataset.names[1:]
    assert torch.equal(part.image(0), dataset.image(1))
    assert torch.equal(part.label(1).reshape(-1), part[1].y)
    (batch,) = DataLoader(part, batch_size=2)
    assert batch.num_graphs == 2 and batch.feature.shape == (108, 3)


def test_bsds_is_the_same_from_everywhere(tmp_path, bsds, make):
    make.folder(tmp_path / "folder", bsds)
    make.folder(tmp_path / "inner", make.below(bsds, "BSR"))
    make.tar(tmp_path / "tar" / "bsds500" / bsds500.TAR, bsds, "w:gz")
    for part in ("train", "val", "test"):
        make.zip(tmp_path / "zip" / "bsds500" / f"{part}.zip", make.below(bsds, f"{BSDS}/{part}"))
    expected = BSDS500(tmp_path / "folder", "all")
    assert expected.names == ["100", "20", "7", "8"]
    for place in ("inner", "tar", "zip"):
        other = BSDS500(tmp_path / place, "all")
        assert all(equal(a, b) for a, b in zip(expected, other, strict=True))
    assert [len(BSDS500(tmp_path / "zip", s)) for s in ("train", "trainval", "test")] == [2, 3, 1]


def test_bsds_gray(tmp_path, bsds, make):
    make.folder(tmp_path, bsds)
    dataset = BSDS500(tmp_path, "train", gray=True)
    picture = Image.open(tmp_path / BSDS / "train" / "100.jpg").convert("L")
    assert dataset.image(0).shape == (1, 9, 6)
    np.testing.assert_allclose(dataset.image(0)[0], np.asarray(picture) / 255, atol=1e-6)
    assert dataset[0].x.shape == (54, 1)
    assert BSDS500(tmp_path, "train")[0].x.shape == (54, 3)


def nyu_files(make):
    depth = np.random.default_rng(0).integers(0, 256, (480, 640)).astype(np.uint8)
    deep = np.random.default_rng(0).integers(0, 9999, (480, 640)).astype(np.uint16)
    files = {
        "rgb/9.jpg": make.photograph(shape=(480, 640)),
        "rgb/10.png": make.photograph(".png", (480, 640)),
        "rgb/11.png": make.photograph(".png", (480, 640)),
        "depth/9.png": make.encoded(depth, ".png"),
        "depth/10.png": make.encoded(deep, ".png"),
    }
    return files, depth * np.float32(10 / 255), deep * np.float32(0.001)


def test_nyu(tmp_path, make):
    files, depth, deep = nyu_files(make)
    make.zip(tmp_path / "nyu_depth_v2" / "train.zip", files)
    make.folder(tmp_path / "nyu_depth_v2" / "test", files)
    dataset = NYUDepth(tmp_path)
    assert str(dataset) == "NYUDepth(2)"
    assert dataset.names == ["9", "10"]  # 11 has no depth
    np.testing.assert_allclose(dataset.depth(0)[0], depth, atol=1e-6)
    np.testing.assert_allclose(dataset.depth(1)[0], deep, atol=1e-6)
    assert torch.equal(dataset[1].y, dataset.depth(1).reshape(-1))
    assert all(equal(a, b) for a, b in zip(dataset, NYUDepth(tmp_path, "test"), strict=True))
    assert len(NYUDepth(tmp_path, "all")) == 4
    cropped = NYUDepth(tmp_path, crop=True)
    assert cropped.image(1).shape == (3, 427, 561)
    assert torch.equal(cropped.image(1), dataset.image(1)[:, 44:471, 40:601])
    assert torch.equal(cropped[1].y, dataset.depth(1)[0, 44:471, 40:601].reshape(-1))


def test_nyu_original(tmp_path):
    h5py = pytest.importorskip("h5py", reason="the original needs h5py, which is optional")
    from scipy.io import savemat

    images = np.random.default_rng(0).integers(0, 256, (3, 480, 640, 3)).astype(np.uint8)
    depths = np.random.default_rng(0).random((3, 480, 640)).astype(np.float32)
    with h5py.File(tmp_path / nyu_depth.MAT, "w") as file:  # MATLAB keeps columns first
        file["images"] = images.transpose(0, 3, 2, 1)
        file["depths"] = depths.transpose(0, 2, 1)
    savemat(tmp_path / nyu_depth.SPLITS, {"trainNdxs": [[3], [1]], "testNdxs": [[2]]})
    train, test = NYUDepth(tmp_path), NYUDepth(tmp_path, "test")
    assert train.names == ["0", "2"] and test.names == ["1"]
    np.testing.assert_allclose(train.image(1).permute(1, 2, 0), images[2] / 255, atol=1e-6)
    assert np.array_equal(test.depth(0)[0], depths[1])


# Unaries


def test_enlarge_reproduces_a_plane():
    """Bilinear interpolation is exact for what is linear in the pixels of the resized image."""
    rows, columns, resized, size = 26, 33, (193, 257), (500, 375)
    y, x = np.meshgrid(8.0 * np.arange(rows), 8.0 * np.arange(columns), indexing="ij")
    logits = torch.from_numpy(np.stack([y, x, 2 * y - x], -1).astype(np.float32))
    full = enlarge(logits, resized, size)
    assert full.shape == (3, 375, 500)
    expected_y = np.clip((np.arange(375) + 0.5) * 193 / 375 - 0.5, 0, 8 * (rows - 1))
    expected_x = np.clip((np.arange(500) + 0.5) * 257 / 500 - 0.5, 0, 8 * (columns - 1))
    np.testing.assert_allclose(full[0], np.repeat(expected_y[:, None], 500, 1), atol=1e-3)
    np.testing.assert_allclose(full[1], np.repeat(expected_x[None], 375, 0), atol=1e-3)
    np.testing.assert_allclose(full[2], 2 * full[0] - full[1], atol=2e-3)
    assert torch.equal(enlarge(torch.ones(1, 1, 2), (5, 7), (14, 10)), torch.ones(2, 10, 14))


def test_unary(tmp_path, voc, make):
    make.folder(tmp_path, voc)
    with pytest.raises(FileNotFoundError, match=r"with unary.*train_unary_deeplabv3_mnv2\.npz"):
        VOC2012(tmp_path, unary=True)
    stored = np.random.default_rng(0).standard_normal((2, 3, 21)).astype(np.float16)
    np.savez(tmp_path / "train_unary_deeplabv3_mnv2.npz", ids=["2007_000000"],
             resized_hw=[[9, 17]], **{"2007_000000": stored})  # fmt: skip
    dataset = VOC2012(tmp_path, unary=True)
    assert dataset.names == ["2007_000000"]
    expected = enlarge(torch.from_numpy(stored.astype(np.float32)), (9, 17), (9, 6))
    assert torch.equal(dataset.unary(0), expected)
    assert torch.equal(dataset[0].unary, expected.reshape(21, -1).T)
    with pytest.raises(ValueError, match="Expected 'unary=True' when it was made"):
        VOC2012(tmp_path).unary(0)


# The data themselves


def test_voc_itself(data_dir):
    assert [len(VOC2012(data_dir, s)) for s in ("train", "val")] == [61, 128]
    dataset = VOC2012(data_dir, "val", unary=True)
    with zipfile.ZipFile(data_dir / "voc2012" / "val.zip") as archive:
        for i in range(0, 128, 50):
            with archive.open(f"JPEGImages/{dataset.names[i]}.jpg") as file:
                expected = np.asarray(Image.open(file))
            assert np.array_equal((dataset.image(i) * 255).round().permute(1, 2, 0), expected)


def test_voc_unaries_reach_their_figures(data_dir):
    """What the data's own notes say: 0.874 and 0.525 over the 14 classes of the training part."""
    dataset = VOC2012(data_dir, "train", unary=True)
    table = torch.zeros(21, 21, dtype=torch.int64)
    for i in range(len(dataset)):
        table += confusion(dataset.unary(i).argmax(0), dataset.label(i), 21, ignore=dataset.void)
    assert scores(table)["accuracy"] == pytest.approx(0.874, abs=6e-4)
    assert scores(table)["mean_iou"] == pytest.approx(0.525, abs=6e-4)
    assert int((table.sum(1) > 0).sum()) == 14


def test_bsds_itself(data_dir):
    sizes = {"train": 200, "val": 100, "test": 200}
    seen: set[str] = set()
    for split, size in sizes.items():
        dataset = BSDS500(data_dir, split, gray=True)
        assert len(dataset) == len(set(dataset.names) - seen) == size
        seen |= set(dataset.names)
        assert sorted(dataset.image(3).shape) == [1, 321, 481]
        assert 0.05 < float(dataset[3].x.std()) < 0.5


def test_nyu_itself(data_dir):
    assert [len(NYUDepth(data_dir, s)) for s in ("train", "test", "all")] == [50, 118, 168]
    dataset = NYUDepth(data_dir, "test", crop=True)
    assert dataset.names[:2] == ["0", "15"]
    data = dataset[0]
    assert data.y.shape == (427 * 561,) and 0.5 < float(data.y.mean()) < 10
    white = (NYUDepth(data_dir, "test").image(0)[:, :5] > 0.9).float().mean()
    assert white > 0.99 > float((dataset.image(0) > 0.9).float().mean())
