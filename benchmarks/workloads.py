"""Benchmarks W1, W3, W4, W5: bilateral filter, learned convolution, the paper's layer, building."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

import permutogeo as pg
from permutogeo.benchmarks import peers
from permutogeo.benchmarks.timing import (
    Milliseconds,
    in_turn,
    ms,
    ratio,
    square_product,
    table,
    threads,
)

# Filters of the paper's runtime table.
PAPER_FILTERS = 50


def _astronaut(height: int, width: int) -> np.ndarray:
    from skimage import data, transform

    image = transform.resize(data.astronaut(), (height, width), order=1, anti_aliasing=True)
    return image.astype(np.float32)


def _pixels(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width].astype(np.float32)
    return np.stack([x, y], -1)


def image_features(size: int, noisy: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features of W1, ``[N, 5]``, and the colors, ``[N, 3]``."""
    image = _astronaut(size, size)
    if noisy:
        noise = np.random.default_rng(0).normal(0, 0.05, image.shape)
        image = np.clip(image + noise, 0, 1).astype(np.float32)
    position = _pixels(size, size) / 16
    feature = np.concatenate([position, image / 0.1], -1).reshape(-1, 5)
    return torch.from_numpy(feature), torch.from_numpy(image).view(-1, 3)


def bilateral(quick: bool = False) -> None:
    """W1: build a 5-D lattice over an image and filter four channels."""
    size, repeats = (256, 3) if quick else (1024, 15)
    rows = []
    for name in ("clean", "noisy"):
        feature, colors = image_features(size, name == "noisy")
        x = torch.cat([colors, torch.ones(size * size, 1)], 1)
        vertices = pg.Lattice.build(feature).num_vertices

        def filtered(feature=feature, x=x) -> torch.Tensor:
            lattice = pg.Lattice.build(feature)
            return lattice.slice(lattice.blur(lattice.splat(x)))

        time = _beside_pydensecrf(filtered, feature, repeats)
        rows.append(_against(name, f"{vertices:,}", time))
    columns = ["image", "vertices", "pydensecrf ms", "1 thread", "2 threads", "÷ peer", "÷ mm"]
    table(f"W1 bilateral filter, {size} x {size}, 5-D, build + filter", columns, rows)


def _beside_pydensecrf(
    ours: Callable[[], object], feature: torch.Tensor, repeats: int
) -> dict[str, Milliseconds]:
    """Time two threads in turn with pydensecrf, then ``torch.mm``, then one thread.

    The product is timed apart: it empties the caches, only for the contender that follows it.
    """
    contenders = {"two": ours}
    if peers.has("pydensecrf"):
        contenders["peer"] = peers.pydensecrf_build(feature)
    with threads(2):
        time = in_turn(contenders, repeats) | in_turn({"mm": square_product}, repeats)
    with threads(1):
        return time | in_turn({"one": ours}, repeats)


def _against(name: str, detail: str, time: dict[str, Milliseconds]) -> list[str]:
    peer = time.get("peer")
    return [
        name,
        detail,
        ms(peer) if peer else "not installed",
        ms(time["one"]),
        ms(time["two"]),
        ratio(time["two"], peer),
        f"{time['two'] / time['mm']:.1f}",
    ]


def building(quick: bool = False) -> None:
    """W5: build a lattice with the neighbors of a blur, over uniform points and images."""
    sizes = [10**4] if quick else [10**4, 10**5, 10**6, 10**7]
    cases = []
    for dim in (3, 5, 8):
        for count in sizes if dim < 8 else sizes[:3]:
            points = np.random.default_rng(0).random((count, dim), dtype=np.float64) * 10
            cases.append((f"uniform {dim}-D, {count:.0e}", points.astype(np.float32)))
    for side in [100] if quick else [100, 316, 1000, 3162]:
        image = _astronaut(side, side)
        feature = np.concatenate([_pixels(side, side) / 16, image / 0.1], -1).reshape(-1, 5)
        cases.append((f"image 5-D, {side}²", feature))
    rows = []
    for name, points in cases:
        feature = torch.from_numpy(points)

        def build(feature=feature) -> pg.Lattice:
            lattice = pg.Lattice.build(feature)
            lattice.neighbors(stencil="axis")
            return lattice

        repeats = 3 if quick else 5 if len(points) * points.shape[1] >= 10**6 else 15
        time = _beside_pydensecrf(build, feature, repeats)
        rows.append(_against(name, f"{pg.Lattice.build(feature).num_vertices:,}", time))
    columns = ["points", "vertices", "pydensecrf ms", "1 thread", "2 threads", "÷ peer", "÷ mm"]
    table("W5 building, neighbors included", columns, rows)


def convolution(quick: bool = False) -> None:
    """W3: learned convolution on a spherical shell, beside the dense product of its shape."""
    radius, repeats = (20.25, 3) if quick else (89.25, 11)
    side = np.arange(-int(radius) - 3, int(radius) + 4)
    voxel = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    voxel = voxel[np.abs(np.linalg.norm(voxel, axis=1) - radius) < 0.5]
    # A scale of 0.69 gives about one vertex per voxel.
    lattice = pg.Lattice.build(torch.from_numpy(voxel.astype(np.float32)) * 0.69)
    neighbors = lattice.neighbors()
    rows = []
    for channels, outputs in ((64, 64), (16, 32)):
        values = torch.randn(lattice.num_vertices, channels)
        filter = torch.randn(15, channels, outputs) / 30
        dense = torch.randn(lattice.num_vertices, 15 * channels)
        gradient = torch.randn(lattice.num_vertices, outputs)

        def both(values=values, filter=filter, gradient=gradient) -> None:
            leaf, weight = values.requires_grad_(), filter.requires_grad_()
            torch.autograd.grad(lattice.convolve(leaf, weight), (leaf, weight), gradient)

        peer = "not installed"
        if peers.has("spconv"):
            peer = ms(peers.spconv_forward(voxel, channels, outputs, repeats))
        for count in (1, 2):
            with threads(count), torch.no_grad():
                contenders = {
                    "ours": lambda v=values, f=filter: lattice.convolve(v.detach(), f.detach()),
                    "dense": lambda d=dense, f=filter: d @ f.flatten(0, 1),
                    "tap by tap": lambda v=values, f=filter: peers.gather_gemm_scatter(
                        v, f, neighbors
                    ),
                }
                time = in_turn(contenders, repeats)
            with threads(count):
                time |= in_turn({"both": both}, repeats)
            rows.append(
                [
                    f"{channels} → {outputs}",
                    str(count),
                    *(ms(time[name]) for name in ("ours", "dense", "tap by tap")),
                    peer if count == 1 else "",
                    ms(time["both"]),
                    ratio(time["dense"], time["ours"]),
                    f"{time['both'] / time['ours']:.2f}",
                ]
            )
    pairs = int((neighbors >= 0).sum())
    title = (
        f"W3 learned convolution, {len(voxel):,} voxels, {lattice.num_vertices:,} vertices, "
        f"{pairs:,} of {neighbors.numel():,} neighbors present"
    )
    columns = [
        "channels",
        "threads",
        "ours ms",
        "dense mm",
        "tap by tap",
        "spconv",
        "with backward",
    ]
    table(title, [*columns, "rate ÷ dense", "backward ÷ forward"], rows)


def paper_layers(
    height: int, width: int, extent: float = 50.0
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the colors of an image with its features (x, y), (r, g, b), (x, r, g, b) and
    (x, y, r, g, b), scaled to [0, extent)."""
    image = _astronaut(height, width).reshape(-1, 3)
    everything = np.concatenate([_pixels(height, width).reshape(-1, 2), image], 1)
    low, high = everything.min(0), everything.max(0)
    scaled = torch.from_numpy((everything - low) / (high - low) * (extent - 1e-3))
    for columns in ([0, 1], [2, 3, 4], [0, 2, 3, 4], [0, 1, 2, 3, 4]):
        yield torch.from_numpy(image), scaled[:, columns].contiguous()


def paper_table(quick: bool = False) -> None:
    """W4: the paper's runtime table, a layer of 3 to 50 channels, build included."""
    height, width, repeats = (75, 100, 2) if quick else (375, 500, 5)
    rows = []
    for x, feature in paper_layers(height, width):
        taps = pg.stencil(feature.shape[1]).shape[0]
        filter = torch.randn(taps, 3, PAPER_FILTERS)

        def layer(x=x, feature=feature, filter=filter) -> torch.Tensor:
            lattice = pg.Lattice.build(feature)
            return lattice.slice(lattice.convolve(lattice.splat(x), filter))

        def plain(x=x, feature=feature, filter=filter) -> torch.Tensor:
            return peers.TorchLayer(feature)(x, filter)

        with threads(2):
            time = in_turn({"plain": plain, "two": layer}, repeats)
        with threads(1):
            time |= in_turn({"one": layer}, repeats)
        rows.append(
            [
                str(feature.shape[1]),
                str(taps),
                f"{pg.Lattice.build(feature).num_vertices:,}",
                *(ms(time[name]) for name in ("plain", "one", "two")),
                ratio(time["two"], time["plain"]),
            ]
        )
    columns = ["d", "taps", "vertices", "plain torch ms", "1 thread", "2 threads", "÷ plain"]
    table(
        f"W4 the paper's layer, {height} x {width}, 3 → 50 channels, build included", columns, rows
    )
