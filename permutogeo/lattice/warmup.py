"""Ahead-of-time compilation of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import torch

from permutogeo.checks import check_integer
from permutogeo.lattice.lattice import Lattice
from permutogeo.ops.blur import NARROW
from permutogeo.ops.mean_field import Blur, BlurFilter, Corners, FusedMeanField


def warmup(
    dims: Iterable[int],
    dtypes: Iterable[str] = ("float32",),
    device: str | torch.device = "cpu",
    on_progress: Callable[[str], None] | None = None,
    labels: Iterable[int] = (),
) -> None:
    """Compile the kernels of lattices of the given dimensions, forward and backward.

    Args:
        dims: Feature dimensions.
        dtypes: ``"float32"``, ``"float64"``.
        device: Device to compile for.
        on_progress: Called with a label before each dimension and type.
        labels: Numbers of labels of dense CRFs with kernels over one or two such features.
    """
    dims, dtypes = _several("dims", dims), _several("dtypes", dtypes)
    for name in dtypes:
        if name not in ("float32", "float64"):
            raise ValueError(f"Expected 'dtypes' of 'float32' and 'float64' (got {name!r})")
    for dim in dims:
        check_integer(None, "dims", dim)
    labels = _several("labels", labels)
    for count in labels:
        check_integer(None, "labels", count)
    target = torch.device(device)
    if target.type == "cuda" and (target.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"Expected 'device' to be one of this machine's (got {device}, there are "
            f"{torch.cuda.device_count()} CUDA devices)"
        )
    for name in dtypes:
        for dim in dims:
            if on_progress is not None:
                on_progress(f"{dim}-D, {name}")
            with torch.inference_mode(False), torch.enable_grad():
                _exercise(dim, getattr(torch, name), target)
    if "float32" in dtypes and target.type == "cpu":
        _exercise_crf(dims, labels)


def _several(name: str, items: Any) -> list:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise TypeError(f"Expected '{name}' to be a list (got {items!r})")
    return list(items)


def _exercise(dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Run every kernel once: on equal points, which splat into copies, and on few points."""
    spot = torch.zeros(64, dim, dtype=dtype, device=device)
    many = Lattice.build(spot)
    for channels in range(1, NARROW + 1):  # each has a blur of its own
        many.blur(many.splat(spot.new_ones(len(spot), channels)))
    many.coarsen()
    far = spot[:2].clone()
    far[1] = min(2.0 ** (40 / dim), 2.0**20)
    Lattice.build(far)  # codes of more than 32 bits
    feature = spot[:2].clone().requires_grad_()
    lattice = Lattice.build(feature)
    at = lattice.locate(feature)
    taps = lattice.neighbors(stencil="axis").shape[1]
    # A GPU has kernels of their own for rows of whole blocks.
    for channels in (4, 5):
        like: dict[str, Any] = {"dtype": dtype, "device": device, "requires_grad": True}
        shared = torch.ones(taps, **like)
        dense = torch.ones(taps, channels, channels, **like)
        deep = torch.ones(taps, 1, channels, **like)
        x = torch.ones_like(feature[:, :1]).expand(-1, channels)
        values = lattice.blur(lattice.splat(x))
        values = lattice.convolve(values, shared, stencil="axis", shared=True)
        values = lattice.convolve(values, dense, stencil="axis")
        if channels == 4:  # without groups, torch alone convolves few values on one thread
            grouped = torch.ones(taps, 2, channels, **like)
            values = lattice.convolve(values, grouped, stencil="axis", groups=2)
        values = lattice.convolve(values, deep, stencil="axis", groups=channels)
        lattice.slice(values, at).sum().backward(retain_graph=True)


@torch.no_grad()
def _exercise_crf(dims: list[int], labels: list[int]) -> None:
    """Run mean field on two points, with one kernel and with each pair of kernels."""
    single = [(dim,) for dim in dims]
    for chosen in (*single, *combinations(dims, 2)):
        lattices = [Lattice.build(torch.zeros(2, dim, device="cpu")) for dim in chosen]
        blurs = [Blur.on(each.neighbors(stencil="axis"), each.dim, each.taps) for each in lattices]
        corners = [
            Corners(each.vertex, each.weight, each.num_vertices, "symmetric", blur)
            for each, blur in zip(lattices, blurs, strict=True)
        ]
        for count in labels:
            unary = torch.zeros(2, count, device="cpu")
            for difference in {False, count == 2}:
                fused = FusedMeanField(unary, corners, difference)
                fused.step([BlurFilter(blur, 1.0) for blur in blurs if blur is not None])
                fused.marginals()
