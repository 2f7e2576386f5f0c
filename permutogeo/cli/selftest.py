"""The command ``permutogeo selftest``: oracle comparison, adjoint identities and a timing."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from permutogeo.cli.console import note, note_loading, one_line, report_errors, say
from permutogeo.cli.info import environment
from permutogeo.cli.options import Device, check_device

if TYPE_CHECKING:
    from torch import Tensor

Result = tuple[float, float]

HEADS = (
    *("permutogeo", "python", "torch", "warp", "warp_cuda_toolkit", "platform", "cpu"),
    *("torch_threads", "device"),
)
TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
# Dimension, number of points, number of graphs.
CASES = ((1, 300, 1), (2, 300, 3), (3, 300, 1), (5, 200, 2), (8, 60, 1))


def selftest(
    device: Device = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases, a smaller timing.")] = False,
) -> None:
    """Compare the kernels with a float64 reference on this machine, in under a minute.

    Prints a block to paste into an issue. Exits with code 1 if a check fails.
    """
    note_loading()
    with report_errors():
        import torch

        check_device(device)
        note("Testing; kernels that are not in the cache are compiled …")
        start = time.perf_counter()
        results = [(title, *run_check(check)) for title, check in checks(device, quick)]
        lines = [f"{'ok    ' if passed else 'FAILED'} {t}: {text}" for t, passed, text in results]
        lines += [f"time   {line}" for line in timings(device, 10_000 if quick else 200_000)]
        failed = sum(not passed for _, passed, _ in results)
        lines.append(f"{failed} checks failed, {time.perf_counter() - start:.0f} s")
        kind = torch.device(device).type
        name = torch.cuda.get_device_name(device) if kind == "cuda" else device
        report = environment() | {"device": name}
        heads = [f"{each}: {report.get(each, 'unknown')}" for each in HEADS]
        say("\n".join(["```", *heads, *lines, "```"]))
    if failed:
        raise typer.Exit(1)


def run_check(check: Callable[[], Result]) -> tuple[bool, str]:
    """Return whether a check passed, and its figures or its error."""
    try:
        found, limit = check()
    except Exception as error:
        return False, f"{type(error).__name__}: {one_line(error)}"
    return found <= limit, f"{found:.1e} (limit {limit:.0e})"


def checks(device: str, quick: bool) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Yield the checks by title: each returns the error found and its limit."""
    import torch

    for dim, count, graphs in CASES[:2] if quick else CASES:
        for dtype, limit in TOLERANCE.items():

            def oracle(
                dim: int = dim,
                count: int = count,
                graphs: int = graphs,
                dtype: str = dtype,
                limit: float = limit,
            ) -> Result:
                generator = torch.Generator().manual_seed(dim)
                feature = 3 * torch.randn(count, dim, dtype=torch.float64, generator=generator)
                # Rounded first, so that the reference sees the same features.
                feature = feature.to(getattr(torch, dtype))
                batch = torch.arange(count) * graphs // count if graphs > 1 else None
                return oracle_error(feature, batch, device), limit

            yield f"oracle, d = {dim}, {dtype}", oracle

        def adjoint(dim: int = dim) -> Result:
            return adjoint_error(dim, device), 1e-11

        yield f"adjoint identities, d = {dim}", adjoint
    yield "gradients, d = 2", lambda: (gradient_error(device), 0.0)
    # Only CPU results are promised to be bit-equal: CUDA sums in the order of its atomics.
    limit = 0.0 if device == "cpu" else 1e-5
    yield "difference of repeated runs, d = 3", lambda: (repeat_error(device), limit)


def oracle_error(feature: "Tensor", batch: "Tensor | None", device: str, seed: int = 0) -> float:
    """Return the largest relative error of filter and convolution on a lattice over ``feature``."""
    import numpy as np
    import torch

    from permutogeo.lattice import Lattice
    from permutogeo.testing import reference

    rng = np.random.default_rng(seed)
    count, dim = feature.shape
    x = torch.from_numpy(rng.standard_normal((count, 3))).to(feature)
    expected = reference.ReferenceLattice(feature, batch)
    lattice = Lattice.build(feature.to(device), None if batch is None else batch.to(device))
    if lattice.num_vertices != expected.num_vertices:
        raise ValueError(f"Expected {expected.num_vertices} vertices (got {lattice.num_vertices})")
    values, other = lattice.splat(x.to(device)), expected.splat(x)
    pairs = [(lattice.slice(lattice.blur(values)), expected.slice(expected.blur(other)))]
    if dim <= 8:  # a stencil of radius 1 has 2^(d + 1) - 1 taps
        offsets = reference.stencil(dim, 1)
        weight = torch.from_numpy(rng.standard_normal((len(offsets), 3, 2))).to(feature)
        found = lattice.slice(lattice.convolve(values, weight.to(device)))
        pairs.append((found, expected.slice(expected.convolve(other, weight, offsets))))
    errors = [
        np.abs(found.double().cpu().numpy() - wanted).max(initial=0)
        / max(np.abs(wanted).max(initial=0), 1e-30)
        for found, wanted in pairs
    ]
    return float(max(errors))


def adjoint_error(dim: int, device: str, seed: int = 0) -> float:
    """Return the relative violation of <A x, y> = <x, A^T y> for splat, blur and convolve."""
    import torch

    from permutogeo.lattice import Lattice
    from permutogeo.ops.stencils import num_taps

    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator).to(device)

    lattice = Lattice.build(3 * random(100, dim))
    x, values = random(100, 3), random(lattice.num_vertices, 3)
    weight = random(num_taps(dim, 1), 3, 3)
    other, leaf = random(lattice.num_vertices, 3), values.clone().requires_grad_()
    (transposed,) = torch.autograd.grad(lattice.convolve(leaf, weight), leaf, other)
    products = [
        ((lattice.splat(x) * values).sum(), (x * lattice.slice(values)).sum()),
        (
            (lattice.blur(values) * other).sum(),
            (values * lattice.blur(other, transpose=True)).sum(),
        ),
        ((lattice.convolve(values, weight) * other).sum(), (values * transposed).sum()),
    ]
    return max(float((a - b).abs() / (a.abs() + b.abs() + 1)) for a, b in products)


def gradient_error(device: str) -> float:
    """Check the gradients in values, features and filter by finite differences; return 0."""
    import torch

    from permutogeo.lattice import Lattice

    torch.manual_seed(0)
    shapes = ((8, 2), (8, 2), (7, 2, 2))
    inputs = [
        torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True)
        for shape in shapes
    ]

    def layer(x, feature, weight):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.convolve(lattice.splat(x), weight))

    torch.autograd.gradcheck(layer, inputs)
    return 0.0


def repeat_error(device: str) -> float:
    """Return the largest difference between two runs; on a CPU with one thread and with all."""
    import torch

    from permutogeo.functional import gaussian_filter

    torch.manual_seed(0)
    x, feature = torch.randn(5000, 3, device=device), 5 * torch.rand(5000, 3, device=device)
    first = gaussian_filter(x, feature)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        second = gaussian_filter(x, feature)
    finally:
        torch.set_num_threads(threads)
    return float((first - second).abs().max())


def timings(device: str, count: int) -> Iterator[str]:
    """Yield lines with the median milliseconds of building, filtering and a training step."""
    import torch

    from permutogeo.functional import gaussian_filter
    from permutogeo.lattice import Lattice
    from permutogeo.nn import BilateralConv

    torch.manual_seed(0)
    x, feature = torch.randn(count, 16, device=device), 10 * torch.rand(count, 5, device=device)
    conv = BilateralConv(16, 16, dim=3).to(device)

    def step() -> None:
        conv(x, feature[:, :3]).square().mean().backward()

    calls: dict[str, Callable[[], object]] = {
        "build, d = 5": lambda: Lattice.build(feature),
        "gaussian_filter, d = 5, 16 channels": lambda: gaussian_filter(x, feature),
        "BilateralConv, d = 3, 16 to 16 channels, forward + backward": step,
    }
    for name, call in calls.items():
        times = []
        for _ in range(4):
            start = time.perf_counter()
            call()
            if x.is_cuda:
                torch.cuda.synchronize(x.device)
            times.append(1e3 * (time.perf_counter() - start))
        yield f"{count:,} points, {name}: {median(times[1:]):.1f} ms"
