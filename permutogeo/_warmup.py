"""Compile kernels before they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from permutogeo.lattice import Lattice


def warmup(
    dims: Iterable[int],
    dtypes: Iterable[str] = ("float32",),
    device: str | torch.device = "cpu",
    on_progress: Callable[[str], None] | None = None,
) -> None:
    """Compile what a lattice of each dimension needs, forward and backward, into the kernel cache.

    Args:
        dims: Feature dimensions.
        dtypes: ``"float32"``, ``"float64"``.
        device: Where the kernels are to run.
        on_progress: Called with a label before each dimension and type.
    """
    for name in dtypes:
        if name not in ("float32", "float64"):
            raise ValueError(f"Expected 'dtypes' of 'float32' and 'float64' (got {name!r})")
        for dim in dims:
            if dim < 1:
                raise ValueError(f"Expected 'dims' of at least 1 (got {dim})")
            if on_progress is not None:
                on_progress(f"{dim}-D, {name}")
            _exercise(dim, getattr(torch, name), torch.device(device))


def _exercise(dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Call everything once on two points."""
    feature = torch.zeros(2, dim, dtype=dtype, device=device, requires_grad=True)
    lattice = Lattice.build(feature)
    at = lattice.locate(feature)
    taps = lattice.neighbors(stencil="axis").shape[1]
    shared = torch.ones(taps, dtype=dtype, device=device, requires_grad=True)
    dense = torch.ones(taps, 2, 3, dtype=dtype, device=device, requires_grad=True)
    deep = torch.ones(taps, 1, 3, dtype=dtype, device=device, requires_grad=True)
    values = lattice.blur(lattice.splat(torch.ones_like(feature[:, :1]).expand(-1, 2)))
    values = lattice.convolve(values, shared, stencil="axis", shared=True)
    values = lattice.convolve(values, dense, stencil="axis")
    values = lattice.convolve(values, deep, stencil="axis", groups=3)
    lattice.slice(values, at).sum().backward()
