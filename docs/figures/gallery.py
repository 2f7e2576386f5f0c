"""Pictures of the gallery that no example writes by itself.

    python docs/figures/gallery.py

Writes PNG files to ``docs/figures/gallery``, named after the examples: charts of result files, and
scenes from the generated data that the examples use.
"""

import json
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from _shading import shade
from PIL import Image

import permutogeo as pg
from permutogeo.datasets import SharpShapes, StreetScenes
from permutogeo.denoising import denoise
from permutogeo.transforms import NormalNoise

DOCS = Path(__file__).parent.parent
OUTPUT = DOCS / "figures" / "gallery"
BLUE, GRAY = "#2563eb", "#9aa5b4"
SIZE = (4.8, 3.2)


def chart(name, columns, label, rows=None):
    """Draw columns of a result file as bars; rows that name a lattice are blue."""
    record = json.loads((DOCS / "runs" / f"{name}.json").read_text())
    rows = record["rows"] if rows is None else [record["rows"][i] for i in rows]
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    names = [row[0].replace("`", "") for row in rows]
    values = [
        float(str(row[record["columns"].index(column)]).split()[0].strip("*%").replace(",", ""))
        for row in rows
        for column in columns
    ]
    ours = ("Lattice", "ilateral", "learned CRF")
    colors = [BLUE if any(word in each for word in ours) else GRAY for each in names]
    if len(columns) > 1:
        names = [f"{each}, {column}" for each in names for column in columns]
        colors = [GRAY, BLUE] * (len(names) // 2)
    bars = axes.barh(names[::-1], values[::-1], color=colors[::-1])
    axes.bar_label(bars, padding=3)
    axes.set_xlabel(label)
    axes.margins(x=0.15)
    if min(values) > 0.8 * max(values):
        spread = max(values) - min(values)
        axes.set_xlim(min(values) - spread, max(values) + 0.6 * spread)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUTPUT / f"{name}.png", dpi=110)


def side_by_side(name, pictures):
    """Write pictures with alpha side by side over white."""
    both = np.concatenate(pictures, 1)
    flat = both[..., :3] * both[..., 3:] + 1 - both[..., 3:]
    Image.fromarray((255 * flat).round().astype(np.uint8)).save(OUTPUT / f"{name}.png")


def cloud(axes, pos, color, view=(25, -60), size=1.5):
    """Draw a cloud with equal axes and no frame."""
    axes.scatter(*pos.T, c=color, s=size, linewidths=0)
    axes.set_box_aspect(np.ptp(pos, axis=0), zoom=1.5)
    axes.view_init(*view)
    axes.set_axis_off()


def clouds(name, panels, titles=None, **options):
    """Write a figure with clouds side by side."""
    figure = plt.figure(figsize=SIZE)
    for index, (pos, color) in enumerate(panels):
        axes = figure.add_axes((index / len(panels), 0, 1 / len(panels), 1), projection="3d")
        cloud(axes, pos, color, **options)
        if titles:
            axes.set_title(titles[index], y=0.9)
    figure.savefig(OUTPUT / f"{name}.png", dpi=110)


def scans():
    shapes = SharpShapes(24, num_faces=(9000, 10000), seed=3)
    noisy = NormalNoise(0.25, seed=0)(shapes[9])
    side_by_side("train_denoiser", [shade(mesh, 300) for mesh in (noisy, denoise(noisy))])
    mesh = shapes[8]
    from permutogeo.transforms import VertexNormals

    pos = mesh.pos.numpy()
    rng = np.random.default_rng(0)
    rough = pos + 0.03 * rng.standard_normal(pos.shape).astype(np.float32)
    clean = denoise(pg.data.from_point_cloud(rough)).pos.numpy()
    panels = [(each, each[:, 2] + 0.6 * each[:, 0]) for each in (rough, clean)]
    clouds("train_cloud_denoiser", panels, size=2.5, view=(20, -75))
    # Three clicks a part, propagated over position and normal.
    mesh = VertexNormals()(shapes[4])
    part = torch.zeros(mesh.num_nodes, dtype=torch.int64)
    part[mesh.face.flatten()] = mesh.face_patch.repeat(3)
    label = torch.full_like(part, -1)
    for each in part.unique():
        clicked = (part == each).nonzero()[:, 0]
        label[clicked[torch.from_numpy(rng.permutation(len(clicked))[:3])]] = each
    feature = torch.cat([mesh.pos / 0.15, mesh.normal / 0.5], 1)
    found = pg.solvers.bilateral_label_propagation(label, feature).argmax(1)
    colors = plt.get_cmap("tab10")(found.numpy() % 10)
    known = np.where((label >= 0).numpy()[:, None], colors, [0.85, 0.87, 0.9, 1])
    order = np.argsort((label >= 0).numpy())
    clouds(
        "click_labels",
        [(mesh.pos.numpy()[order], known[order]), (mesh.pos.numpy(), colors)],
        size=3,
    )


def scenes():
    """A generated street labeled by the shipped network, and boxes before and after a motion."""
    scene = StreetScenes(1, "test", 20_000)[0]
    model = pg.models.LatticeUNet.from_pretrained("streets").eval()
    with torch.no_grad():
        found = model(scene.x, scene.pos).argmax(1)
    colors = plt.get_cmap("tab10")
    panels = [(scene.pos.numpy(), colors(y.numpy() % 10)) for y in (scene.y, found)]
    clouds("train_scenes", panels, view=(35, -55), titles=["true", "network"])
    sys.path.insert(0, str(DOCS.parent / "examples"))
    from scene_flow import make_scene

    first, _, second, _ = make_scene(1)
    both = torch.cat([first, second]).numpy()
    color = np.repeat([[0.6, 0.65, 0.7], [0.15, 0.39, 0.92]], [len(first), len(second)], axis=0)
    clouds("scene_flow", [(both, color)], view=(25, -60), size=4)


def bound():
    """The PSNR of spatial filters beside the bound."""
    record = json.loads((DOCS / "runs" / "denoise_images.json").read_text())
    chart("denoise_images", ["PSNR"], "PSNR, dB", rows=range(1, min(6, len(record["rows"]))))
    (OUTPUT / "denoise_images.png").rename(OUTPUT / "spatial_bound.png")


def beyond():
    """The rows of the example's table in which higher is better and nothing is missing."""
    record = json.loads((DOCS / "runs" / "paper_beyond.json").read_text())
    names = ("color upsampling", "characters", "digits", "image denoising")
    labels = ["the paper's best", "a lattice today", "without a lattice"]
    columns = [record["columns"].index(each) for each in labels]
    figure, panels = plt.subplots(len(names), 1, figsize=SIZE, layout="constrained")
    for axes, name in zip(panels, names, strict=True):
        row = next(each for each in record["rows"] if each[0].startswith(name))
        values = [max(map(float, re.findall(r"\d+\.\d+", row[each]))) for each in columns]
        bars = axes.barh(labels[::-1], values[::-1], color=[GRAY, BLUE, GRAY])
        axes.bar_label(bars, padding=3, fontsize=8)
        spread = max(values) - min(values)
        axes.set_xlim(min(values) - spread, max(values) + 0.4 * spread)
        axes.set_title(row[0], fontsize=8, loc="left", pad=2)
        axes.tick_params(labelsize=7)
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.savefig(OUTPUT / "beyond.png", dpi=110)


if __name__ == "__main__":
    OUTPUT.mkdir(parents=True, exist_ok=True)
    chart("clean_labels", ["correct before", "correct after"], "correct labels, %")
    chart("segment_images", ["mean IoU"], "mean IoU")
    chart("train_crf", ["mean IoU"], "mean IoU")
    bound()
    beyond()
    scans()
    scenes()
