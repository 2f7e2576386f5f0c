"""Runtime of a bilateral layer and of a dense convolution: the paper's ``tbl:time``
=================================================================================

Times 50 filters of radius 1 on an image of 375 x 500 pixels with features (x, y), (r, g, b),
(x, r, g, b) and (x, y, r, g, b) in [0, 50): on the lattice, with and without building it, and as a
dense convolution in torch on a grid of 50 points along each axis, forward and with backward. For
convolutions that do not fit into memory the table has the bytes that they need.

::

    python examples/paper/runtime_table.py
"""

import math

import torch

import permutogeo as pg
from permutogeo.benchmarks.experiment import arguments, record
from permutogeo.benchmarks.timing import in_turn, threads
from permutogeo.benchmarks.workloads import PAPER_FILTERS, paper_layers
from permutogeo.viz import curve_chart

PAPER = {  # milliseconds on a CPU and on a GPU: dense convolution in Caffe, and bilateral layer
    2: ("3.3 / 0.5", "4.8 / 2.8"),
    3: ("364.5 / 12.1", "5.1 / 3.2"),
    4: ("30741.8 / 1446.2", "6.2 / 3.8"),
    5: ("out of memory", "7.6 / 4.5"),
}
PASSES = {"forward": "forward", "with backward": "forward + backward"}
CONVOLUTIONS = {
    2: torch.nn.functional.conv2d,
    3: torch.nn.functional.conv3d,
}


def dense_convolution(x, weight):
    """Convolve in any dimension, with 3 taps along each axis.

    Args:
        x: Values on the grid ``[B, C, S, …]``.
        weight: Filters ``[C', C, 3, …]``.
    """
    dim = x.dim() - 2
    if dim in CONVOLUTIONS:
        return CONVOLUTIONS[dim](x, weight, padding=1)
    # Along the first axis, the three neighbors become channels and positions join the batch.
    count, side = x.shape[0], x.shape[2]
    padded = torch.nn.functional.pad(x, [0, 0] * (dim - 1) + [1, 1])
    near = torch.cat([padded.narrow(2, tap, side) for tap in range(3)], 1)
    out = dense_convolution(
        near.transpose(1, 2).flatten(0, 1), weight.transpose(1, 2).flatten(1, 2)
    )
    return out.unflatten(0, (count, side)).transpose(1, 2)


def available_memory():
    """Return the available memory in bytes."""
    with open("/proc/meminfo") as file:
        line = next(line for line in file if line.startswith("MemAvailable"))
    return 1024 * int(line.split()[1])


def dense_bytes(shape, channels):
    """Return the bytes of a convolution with backward: copies of the input and three outputs."""
    return 4 * math.prod(shape) * (10 * channels + 3 * PAPER_FILTERS)


def dense_call(dim, shape):
    """Return calls that convolve a dense grid, forward and with backward."""
    x = torch.rand(1, 3, *shape, requires_grad=True)
    weight = torch.randn(PAPER_FILTERS, 3, *[3] * dim, requires_grad=True)
    return calls(lambda: dense_convolution(x, weight), (x, weight))


def lattice_calls(x, feature):
    """Return the lattice, and calls that build and filter."""
    taps = pg.stencil(feature.shape[1]).shape[0]
    x = x.clone().requires_grad_()
    weight = torch.randn(taps, 3, PAPER_FILTERS, requires_grad=True)
    kept = pg.Lattice.build(feature)

    def build():
        lattice = pg.Lattice.build(feature)
        lattice.neighbors()
        return lattice

    def layer(lattice):
        return lattice.slice(lattice.convolve(lattice.splat(x), weight))

    given = calls(lambda: layer(kept), (x, weight))
    built = calls(lambda: layer(build()), (x, weight))
    return kept, {
        "build": build,
        **{f"lattice {name}": call for name, call in given.items()},
        **{f"lattice {name} + build": call for name, call in built.items()},
    }


def calls(function, leaves):
    """Return calls of the function without gradients, and with gradients of all leaves."""

    def forward():
        with torch.no_grad():
            return function()

    def backward():
        return torch.autograd.grad(function().sum(), leaves)

    return {"forward": forward, "forward + backward": backward}


def measure(x, feature, shape, args):
    """Return the row of one feature space."""
    dim = feature.shape[1]
    lattice, contenders = lattice_calls(x, feature)
    needed, free = dense_bytes(shape, 3), min(args.gigabytes * 1e9, 0.7 * available_memory())
    row = {"taps": pg.stencil(dim).shape[0], "vertices": lattice.num_vertices}
    with threads(args.threads):
        time = in_turn(contenders, args.repeats)
        if needed < free:
            dense = {f"dense {n}": call for n, call in dense_call(dim, shape).items()}
            time |= in_turn(dense, 1 if needed > 1e9 else args.repeats)
    row |= {name: round(value, 2) for name, value in time.items()}
    if needed >= free:
        row["dense forward"] = row["dense forward + backward"] = (
            f"out of memory: {needed / 1e9:,.3g} GB"
        )
    return row


def cells(dim, row):
    """Return a row of the table: milliseconds, with building in brackets."""
    shown = {name: f"{ms:,.1f}" if isinstance(ms, float) else ms for name, ms in row.items()}
    return {
        "taps": row["taps"],
        "vertices": f"{row['vertices']:,}",
        "build": shown["build"],
        **{
            f"lattice: {name}": f"{shown[f'lattice {key}']} ({shown[f'lattice {key} + build']})"
            for name, key in PASSES.items()
        },
        **{f"dense: {name}": shown[f"dense {key}"] for name, key in PASSES.items()},
        "the paper: dense, layer (CPU / GPU)": PAPER[dim],
    }


def main():
    parser = arguments(__doc__, repeats=7, threads=torch.get_num_threads(), gigabytes=12.0)
    args = parser.parse_args()
    size, side = ((375, 500), 50) if not args.quick else ((60, 80), 8)
    if args.quick:
        args.repeats, args.gigabytes = 1, 0.02
    args.output.mkdir(parents=True, exist_ok=True)
    rows = {}
    for x, feature in paper_layers(*size, extent=side):
        dim = feature.shape[1]
        # In two dimensions the grid is the image.
        row = measure(x, feature, size if dim == 2 else (side,) * dim, args)
        rows[dim] = row
        print(f"{dim}-D: {row}", flush=True)
    curves = {
        name: [(dim, row[name]) for dim, row in rows.items() if not isinstance(row[name], str)]
        for name in ("lattice forward", "lattice forward + build", "dense forward")
    }
    picture = args.output / "runtime.png"
    curve_chart(picture, curves, "dimensions", "milliseconds", log=True)
    title = (
        f"Runtime (`tbl:time`): 50 filters of radius 1 on {size[0]} x {size[1]} pixels, features "
        f"in [0, {side}), {args.threads} threads (ms; with building in brackets)"
    )
    table = {f"{dim}-D": cells(dim, row) for dim, row in rows.items()}
    record(args, "Runtime", {title: table}, curves={"Runtime": picture}, rows=rows)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/runtime_table.png"
