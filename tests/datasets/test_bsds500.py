"""BSDS500 from folder, tar and zip."""

import numpy as np
import torch
from PIL import Image

from permutogeo.datasets import BSDS500, bsds500

BSDS = "BSR/BSDS500/data/images"


def equal(a, b):
    return a.keys() == b.keys() and all(
        torch.equal(a[k], b[k]) if torch.is_tensor(a[k]) else a[k] == b[k] for k in a.to_dict()
    )


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


def test_bsds_itself(data_dir):
    sizes = {"train": 200, "val": 100, "test": 200}
    seen: set[str] = set()
    for split, size in sizes.items():
        dataset = BSDS500(data_dir, split, gray=True)
        assert len(dataset) == len(set(dataset.names) - seen) == size
        seen |= set(dataset.names)
        assert sorted(dataset.image(3).shape) == [1, 321, 481]
        assert 0.05 < float(dataset[3].x.std()) < 0.5
