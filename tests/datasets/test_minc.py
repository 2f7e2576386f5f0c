import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.datasets import MINC

ROOT = Path(__file__).parents[2]
NAMES = ["brick", "other", "wood"]


def write(folder, split="test", count=2, side=40):
    """Photographs of two materials, the upper half of each labeled, a corner as 'other'."""
    top, rng = folder / "minc", np.random.default_rng(0)
    for name in ("segments", "unary"):
        (top / "minc-s" / name).mkdir(parents=True, exist_ok=True)
    (top / "minc-s" / "categories.txt").write_text("\n".join(NAMES) + "\n")
    lines = []
    for i in range(count):
        photo = f"{len(split)}0{i}"
        truth = np.where(np.arange(side) < side // 2, 0, 2)[None].repeat(side, 0)
        colors = np.where(truth[..., None] == 0, [160, 60, 40], [60, 120, 200])
        colors = (colors + rng.integers(-3, 4, colors.shape)).astype(np.uint8)
        (top / "photo_orig" / photo[-1]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(colors).save(top / "photo_orig" / photo[-1] / f"{photo}.jpg", quality=95)
        masks = [truth == 0, truth == 2, np.zeros_like(truth, bool)]
        for mask in masks[:2]:
            mask[side // 2 :] = False
        masks[2][:4, :4] = True
        for shape, (category, mask) in enumerate(zip((0, 2, 1), masks, strict=True)):
            lines.append(f"{category},{photo},{shape}")
            Image.fromarray(mask).save(top / "minc-s" / "segments" / f"{photo}_{shape}.png")
        logits = rng.normal(size=(side // 4, side // 4, 3)) + np.eye(3)[truth[::4, ::4]]
        np.save(top / "minc-s" / "unary" / f"{photo}.npy", logits)
    (top / "minc-s" / f"{split}-segments.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_reads_photographs_and_segments(tmp_path):
    dataset = MINC(write(tmp_path), unary=True)
    assert len(dataset) == 2
    assert dataset.classes == tuple(NAMES)
    data = dataset[1]
    assert data.name == "401"
    y = data.y.view(40, 40)
    assert (y[20:] == 255).all()
    assert (y[:4, :4] == 255).all()  # 'other' does not count
    assert (y[5:20, :20] == 0).all()
    assert (y[5:20, 20:] == 2).all()
    assert data.unary.shape == (1600, 3)
    assert set(data.y.unique().tolist()) == {0, 2, 255}
    kept = MINC(tmp_path, ignore=())
    assert (kept[0].y.view(40, 40)[:4, :4] == 1).all()
    assert "unary" not in kept[0]


def test_damage(tmp_path):
    place = write(tmp_path) / "minc" / "minc-s"
    (place / "unary" / "400.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"unary/400\.npy"):
        MINC(tmp_path, unary=True)[0]
    np.save(place / "unary" / "401.npy", np.zeros((3, 4, 5)))
    with pytest.raises(ValueError, match=r"\[rows, columns, 3\] \(got \[3, 4, 5\]\)"):
        MINC(tmp_path, unary=True)[1]
    for line in ("7,400,0", "0,400", "0,../400,0"):
        (place / "test-segments.txt").write_text(line + "\n")
        with pytest.raises(ValueError, match="minc"):
            MINC(tmp_path)
    with pytest.raises(FileNotFoundError, match="val-segments"):
        MINC(tmp_path, split="val")
    with pytest.raises(FileNotFoundError, match="MINC"):
        MINC(tmp_path / "elsewhere")


def test_material_segmentation_end_to_end(tmp_path):
    """The example learns on such a folder, with weighted classes and an ignored label."""
    write(tmp_path, "train", 3)
    write(tmp_path, "test", 1)
    script = ROOT / "examples" / "paper" / "segment_images.py"
    options = ["--task", "materials", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, str(script), *options, "--epochs", "2", "--trials", "3"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    crfs = {"gauss 1", "learned 1", "gauss 2", "learned 2", "loose 2"}
    assert set(rows) == {"network", "guided filter", *crfs}
    assert rows["network"]["accuracy"] < 0.9
    assert all(rows[name]["accuracy"] > 0.95 for name in rows if name != "network")
    assert torch.tensor([row["class_accuracy"] for row in rows.values()]).isfinite().all()
