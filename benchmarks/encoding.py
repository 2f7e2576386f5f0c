"""Multi-resolution encodings: the permutohedral one beside a hash grid in plain torch."""

from __future__ import annotations

import itertools
import math
import time

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter, ReLU, Sequential

from permutogeo.benchmarks.timing import in_turn, ms, table
from permutogeo.nn import PermutohedralEncoding

# Of Instant NGP.
_PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)
LEVELS, FEATURES, GROWTH = 8, 2, 1.6
# Most steps of the permutohedral encoding for a step of the hash grid.
_MOST_STEPS = 4.0
# Resolution of the coarsest level by dimension: the finest exceeds the table in all of them.
BASE = {2: 16, 3: 8, 4: 4, 6: 2}


class HashGrid(Module):
    """The hash encoding of Instant NGP in plain torch: linear interpolation in the cells of grids.

    Args:
        dim: Dimension of the positions.
        num_levels, features_per_level, base_resolution, growth_factor, table_size: As in
            :class:`permutogeo.nn.PermutohedralEncoding`.
    """

    def __init__(
        self,
        dim: int,
        num_levels: int,
        features_per_level: int,
        base_resolution: float,
        growth_factor: float,
        table_size: int,
    ):
        super().__init__()
        self.resolutions = [base_resolution * growth_factor**i for i in range(num_levels)]
        corners = list(itertools.product((0, 1), repeat=dim))
        self.register_buffer("corners", torch.tensor(corners))
        self.register_buffer("primes", torch.tensor(_PRIMES[:dim]))
        sizes = [(math.ceil(each) + 1) ** dim for each in self.resolutions]
        self.dense = [size <= table_size for size in sizes]
        self.tables = torch.nn.ParameterList(
            Parameter(torch.empty(min(size, table_size), features_per_level).uniform_(-1e-4, 1e-4))
            for size in sizes
        )
        self.out_channels = num_levels * features_per_level

    def forward(self, position: Tensor) -> Tensor:
        """Encode positions ``[N, d]`` in the unit cube."""
        out = []
        corners: Tensor = self.corners  # type: ignore[assignment]
        for resolution, rows, dense in zip(self.resolutions, self.tables, self.dense, strict=True):
            scaled = position * resolution
            floor = scaled.detach().floor()
            fraction = (scaled - floor)[:, None]
            weight = torch.where(corners == 1, fraction, 1 - fraction).prod(2)
            cell = floor.long()[:, None] + corners
            if dense:
                side = math.ceil(resolution) + 1
                index = torch.zeros_like(cell[..., 0])
                for axis in range(cell.shape[2]):
                    index = index * side + cell[..., axis].clamp(0, side - 1)
            else:
                hashed = cell * self.primes
                index = hashed[..., 0]
                for axis in range(1, cell.shape[2]):
                    index = index ^ hashed[..., axis]
                index = index % len(rows)
            out.append((weight[..., None] * rows[index]).sum(1))
        return torch.cat(out, 1)


def with_head(encoding: Module, channels: int, width: int = 64) -> Sequential:
    """Return an encoding followed by a small perceptron."""
    size = int(encoding.out_channels)  # type: ignore[arg-type]
    return Sequential(
        encoding, Linear(size, width), ReLU(), Linear(width, width), ReLU(), Linear(width, channels)
    )


def make_pair(dim: int, table_size: int, **options: float) -> dict[str, Module]:
    """Return both encodings with the same levels and table size."""
    settings = {"base_resolution": BASE[dim], "growth_factor": GROWTH, **options}
    levels, features = int(settings.pop("num_levels", LEVELS)), FEATURES
    base, growth = settings["base_resolution"], settings["growth_factor"]
    return {
        "permutohedral": PermutohedralEncoding(dim, levels, features, base, growth, table_size),
        "hash grid": HashGrid(dim, levels, features, base, growth, table_size),
    }


def _target(position: Tensor) -> Tensor:
    """Return the signed distance to a union of balls, with a ripple on it."""
    generator = torch.Generator().manual_seed(1)
    centers = torch.rand(6, position.shape[1], generator=generator)
    distance = torch.cdist(position, centers).amin(1, keepdim=True) - 0.25
    return distance + 0.02 * torch.sin(25 * position.sum(1, keepdim=True))


def _fit(encoding: Module, dim: int, steps: int, batch: int) -> float:
    """Train on random positions, and return the error on others over the spread of the target."""
    torch.manual_seed(0)
    model = with_head(encoding, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        position = torch.rand(batch, dim)
        loss = (model(position) - _target(position)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        position = torch.rand(8192, dim)
        target = _target(position)
        error = (model(position) - target).square().mean().sqrt() / target.std()
    return float(error)


def encoding(quick: bool = False) -> None:
    """Speed and quality over d = 2, 3, 4, 6 at equal table size."""
    count, steps, batch = (512, 5, 256) if quick else (2**15, 400, 4096)
    repeats, size = (1, 2**10) if quick else (7, 2**14)
    rows = []
    for dim in BASE:
        torch.manual_seed(0)
        pair = make_pair(dim, size)
        position = torch.rand(count, dim)

        def both(model: Module, position: Tensor = position) -> None:
            moved = position.clone().requires_grad_()
            model(moved).sum().backward()

        calls = {
            f"{name}, forward": lambda m=model, x=position: m(x) for name, model in pair.items()
        }
        calls |= {f"{name}, backward": lambda m=model: both(m) for name, model in pair.items()}
        with torch.no_grad():
            forward = in_turn({k: v for k, v in calls.items() if "forward" in k}, repeats)
        backward = in_turn({k: v for k, v in calls.items() if "backward" in k}, repeats)
        errors, taken = {}, {}
        for name, model in pair.items():
            start = time.process_time()
            errors[name] = _fit(model, dim, steps, batch)
            taken[name] = time.process_time() - start
            parameters = sum(each.numel() for each in model.parameters())
            rows.append([
                f"{dim}, {name}", str(dim + 1 if name == "permutohedral" else 2**dim),
                f"{parameters:,}", ms(forward[f"{name}, forward"]),
                ms(backward[f"{name}, backward"]), f"{errors[name]:.4f}", f"{taken[name]:.1f}",
            ])  # fmt: skip
        # As many steps as the hash grid's time allows.
        ratio = min(taken["hash grid"] / taken["permutohedral"], _MOST_STEPS)
        again = make_pair(dim, size)["permutohedral"]
        longer = _fit(again, dim, round(steps * ratio), batch)
        rows[-2] += [f"{ratio:.1f}", f"{longer:.4f}"]
        rows[-1] += ["1", f"{errors['hash grid']:.4f}"]
    columns = ["d, encoding", "corners", "values", "forward ms", "with backward ms"]
    columns += ["error", "fit s", "steps in the time of the hash grid", "error then"]
    title = (
        f"Encoding of {count} positions, {LEVELS} levels, tables of {size}; relative error after "
        f"{steps} steps"
    )
    table(title, columns, rows)
