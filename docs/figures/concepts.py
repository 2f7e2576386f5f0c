"""The figures of the pages on concepts and on bandwidths.

    python docs/figures/concepts.py

Writes PNG files to ``docs/_static/figures``. Everything drawn is computed by the library.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from _shading import photograph
from matplotlib.collections import LineCollection

import permutogeo as pg

OUTPUT = Path(__file__).parent.parent / "_static" / "figures"
INK, FAINT, BLUE, RED = "#1f2937", "#c5ccd6", "#2563eb", "#dc2626"
plt.rcParams |= {
    "font.size": 11, "text.color": INK, "axes.edgecolor": FAINT, "axes.labelcolor": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.titlesize": 12, "savefig.dpi": 150,
}  # fmt: skip


def positions(lattice):
    """Return the places of the vertices in feature space, ``[M, d]``: the elevation, inverted."""
    d = lattice.dim
    i = np.arange(d)
    scaled = np.diag((d + 1) * np.sqrt(2 / 3) / np.sqrt((i + 1) * (i + 2)))
    elevation = np.triu(np.ones((d + 1, d)), 0) - np.diag(np.arange(1, d + 1.0), -1)[:, :d]
    key = lattice.key.double().numpy()
    return key @ np.linalg.inv((elevation @ scaled)[:d]).T


def edges(lattice, place):
    """Return the segments between neighboring vertices."""
    neighbors = lattice.neighbors(stencil="axis")[:, 1:].numpy()
    start, tap = np.nonzero(neighbors >= 0)
    return np.stack([place[start], place[neighbors[start, tap]]], 1)


def bare(axes, title):
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)


def pipeline():
    """Points, splat, convolve, slice: the same cloud and its lattice in 2-D."""
    rng = np.random.default_rng(4)
    angle = rng.uniform(0, 2 * np.pi, 46)
    radius = np.where(rng.random(46) < 0.6, 1.9, 0.7) + 0.16 * rng.standard_normal(46)
    feature = torch.from_numpy(1.35 * np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1))
    x = torch.from_numpy((np.sin(2 * angle) + 0.5 * rng.standard_normal(46))[:, None])
    lattice = pg.Lattice.build(feature)
    place = positions(lattice)
    lines = edges(lattice, place)
    weight = lattice.splat(torch.ones_like(x))
    splatted = lattice.splat(x)
    blurred = lattice.blur(splatted)
    smooth = lattice.slice(blurred) / lattice.slice(lattice.blur(weight))
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.1), layout="constrained")
    titles = ("points with features", "splat", "convolve", "slice")
    captions = ("x [N, C], feature [N, d]", "values [M, C]", "values [M, C']", "output [N, C']")
    limits = {"cmap": "coolwarm", "vmin": -1.3, "vmax": 1.3}
    for panel, title, caption in zip(panels, titles, captions, strict=True):
        bare(panel, title)
        panel.set_xlabel(caption, family="monospace", fontsize=10)
        panel.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.7, zorder=0))
        panel.set_xlim(-3.9, 3.9)
        panel.set_ylim(-3.4, 3.4)
    points = feature.numpy().T
    dots = {"s": 34, "edgecolors": INK, "linewidths": 0.7, "zorder": 3, **limits}
    panels[0].scatter(*points, c=x[:, 0], **dots)
    for panel, values in ((panels[1], splatted), (panels[2], blurred)):
        shown = values / lattice.blur(weight) if panel is panels[2] else values / (weight + 1e-9)
        size = 130 * (weight[:, 0] / weight.max()).sqrt() + 14
        panel.scatter(
            *place.T, c=shown[:, 0], s=size, marker="h", edgecolors=INK, linewidths=0.6, **limits
        )
    corner = lattice.vertex[np.arange(len(x))].long().numpy()
    rays = [(feature[i].numpy(), place[v]) for i in range(len(x)) for v in corner[i]]
    panels[1].add_collection(
        LineCollection(rays, colors=BLUE, linewidths=0.6, alpha=0.55, zorder=1)
    )
    panels[3].scatter(*points, c=smooth[:, 0], **dots)
    figure.savefig(OUTPUT / "pipeline.png")


def normalization():
    """A step sampled unevenly: the plain response follows the density of the points."""
    rng = np.random.default_rng(0)
    place = np.sort(np.concatenate([rng.uniform(0, 10, 60), rng.normal(3, 0.5, 160)]).clip(0, 10))
    value = (place > 5).astype(float) + 1 + 0.15 * rng.standard_normal(len(place))
    feature, x = torch.from_numpy(place[:, None] / 0.5), torch.from_numpy(value[:, None])
    figure, panels = plt.subplots(1, 2, figsize=(10, 3), layout="constrained", sharex=True)
    for panel, kind, title in zip(
        panels, (None, "after"), ("normalize=None", 'normalize="after"'), strict=True
    ):
        result = pg.functional.gaussian_filter(x, feature, normalize=kind)
        panel.plot(place, value, ".", color=FAINT, label="values")
        panel.plot(place, result, color=BLUE, lw=2, label="filtered")
        panel.set_title(title, family="monospace", fontsize=11)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlabel("position; most points lie near 3")
    panels[0].legend(frameon=False)
    figure.savefig(OUTPUT / "normalization.png")


def output_points(photo):
    """An image from 4 % of its pixels: values at some points, answers at all of them."""
    height, width = photo.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float32)
    place = torch.from_numpy(np.stack([x, y], -1).reshape(-1, 2))
    color = torch.from_numpy(photo.reshape(-1, 3))
    known = torch.from_numpy(np.random.default_rng(0).random(len(color)) < 0.04)
    lattice, at = pg.Lattice.build_bipartite(place[known] / 4, place / 4)
    values = torch.cat([color[known], torch.ones(int(known.sum()), 1)], 1)
    out = lattice.slice(lattice.blur(lattice.splat(values)), at)
    out = (out[:, :3] / out[:, 3:].clamp_min(1e-6)).clamp(0, 1)
    seen = np.where(known.numpy()[:, None], color, 1.0)
    panels = {"input points: 4 % of the pixels": seen, "output points: all pixels": out.numpy()}
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.7), layout="constrained")
    for panel, (title, picture) in zip(axes, panels.items(), strict=True):
        bare(panel, title)
        panel.imshow(np.asarray(picture).reshape(photo.shape), interpolation="nearest")
    figure.savefig(OUTPUT / "output_points.png")


def bandwidths(photo):
    """Too small, right and too large bandwidths of color, with the lattice's own figures."""
    noisy = photo + 0.08 * np.random.default_rng(0).standard_normal(photo.shape).astype("float32")
    height, width = photo.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float32)
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.9), layout="constrained")
    bare(panels[0], "noisy")
    panels[0].imshow(noisy.clip(0, 1))
    panels[0].set_xlabel(f"{psnr(noisy, photo):.1f} dB")
    rows = []
    for panel, sigma, word in zip(
        panels[1:], (0.03, 0.25, 2.0), ("too small", "right", "too large"), strict=True
    ):
        smooth = pg.image.bilateral_filter(noisy, sigma_pos=5.0, sigma_color=sigma)
        feature = torch.from_numpy(
            np.concatenate([np.stack([x, y], -1) / 5, noisy / sigma], -1).reshape(-1, 5)
        ).float()
        report = pg.functional.approximation_report(
            torch.from_numpy(noisy).view(-1, 3), feature, samples=512
        )
        density = report.num_points / report.num_vertices
        bare(panel, f"{word}: sigma_color = {sigma}")
        panel.imshow(smooth.clip(0, 1))
        panel.set_xlabel(f"{psnr(smooth, photo):.1f} dB · {density:.2g} points per vertex")
        rows.append((sigma, density, psnr(smooth, photo), report.psnr))
    figure.savefig(OUTPUT / "bandwidths.png", dpi=85)
    for row in rows:
        print(
            "sigma_color {:g}: {:.2g} points per vertex, PSNR {:.1f} dB, lattice {:.1f} dB".format(
                *row
            )
        )


def psnr(image, clean):
    return float(-10 * np.log10(np.mean((image - clean) ** 2)))


if __name__ == "__main__":
    OUTPUT.mkdir(parents=True, exist_ok=True)
    pipeline()
    normalization()
    output_points(photograph(192))
    bandwidths(photograph(224)[40:200, 20:190])
