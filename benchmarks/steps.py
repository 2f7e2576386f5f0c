"""Training steps: lattice layers and networks beside PyG's and torch's, and their Python calls."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch_geometric.nn import MLP, EdgeConv, SAGEConv

import permutogeo as pg
from permutogeo.benchmarks.timing import in_turn, ms, ratio, table, threads
from permutogeo.models import LatticeCNet, LatticeUNet
from permutogeo.nn import BilateralConv, LatticeConv, LatticeNorm, LatticePool

Step = Callable[[], object]
_NEIGHBORS = 16
# Matrix products of MKL and of oneDNN, and the gather of convolutions over present neighbors.
_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmm_"}
_PRODUCTS |= {"mkldnn::_linear_pointwise", "aten::index_select"}
# The gather of convolutions of small lattices.
_TAKE = "<method 'take' of 'numpy.ndarray' objects>"


def steps(quick: bool = False) -> None:
    """Time training steps on one thread: small and large clouds, layers, networks, images."""
    with threads(1):
        _clouds(quick)
        _layers(quick)
        _networks(quick)
        _images(quick)


def calls_of(step: Step) -> int:
    """Return the calls of a step as ``cProfile`` counts them, built-in functions included."""
    return _profiled(step).total_calls


def kernel_share(step: Step) -> float:
    """Return the share of a step's time on one thread in our kernels, in gathers and
    in matrix products."""
    stats = _profiled(step)
    kernels = sum(
        own
        for (file, _, name), (_, _, own, *_) in stats.stats.items()
        if (file.endswith("bridge.py") and name == "directly") or name == _TAKE
    )
    with torch.profiler.profile() as profile:
        step()
    events = profile.key_averages()
    products = sum(event.self_cpu_time_total for event in events if event.key in _PRODUCTS) / 1e6
    return (kernels + products) / stats.total_tt


def _profiled(step: Step) -> Any:
    step()
    profile = cProfile.Profile()
    profile.runcall(step)
    return pstats.Stats(profile)


def _training(module: torch.nn.Module, *arguments: object) -> Step:
    """Return a step: forward and backward pass of a mean square, and plain gradient descent."""
    optimizer = torch.optim.SGD(module.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        module(*arguments).square().mean().backward()
        optimizer.step()

    return step


def _cloud(
    count: int, graphs: int, channels: int, suggested: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return values, positions on a sphere with about two vertices for each point, or with three
    points for each vertex as ``suggest_scale`` chooses, and the batch."""
    generator = torch.Generator().manual_seed(0)
    place = torch.randn(count * graphs, 3, generator=generator)
    place = place / place.norm(dim=1, keepdim=True) * 0.35 * count**0.5
    if suggested:
        place = place * pg.suggest_scale(place[:count])
    batch = torch.arange(graphs).repeat_interleave(count)
    return torch.rand(count * graphs, channels, generator=generator), place, batch


def _nearest(place: Tensor, batch: Tensor) -> Tensor:
    """Return the edges from the nearest neighbors of each point."""
    # Graphs are far apart along a fourth axis.
    apart = 1e3 * place.abs().max() * batch.unsqueeze(1)
    nodes = torch.cat([place, apart], 1).numpy()
    near = torch.from_numpy(cKDTree(nodes).query(nodes, _NEIGHBORS)[1])
    target = torch.arange(len(place)).repeat_interleave(_NEIGHBORS)
    return torch.stack([near.reshape(-1), target])


class _OnNeighbors(torch.nn.Module):
    """A PyG layer on the graph of nearest neighbors, which is searched at each call."""

    def __init__(self, layer: torch.nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, place: Tensor, batch: Tensor) -> Tensor:
        return self.layer(x, _nearest(place, batch))


class _SageNet(torch.nn.Module):
    """SAGE convolutions of the widths of a U-Net's convolutions, all at the points, with norm and
    ReLU; neighbors are searched once."""

    def __init__(self, channels: int):
        super().__init__()
        widths = [channels * factor for factor in (1, 1, 2, 4, 2, 1)]
        self.layers = torch.nn.ModuleList(SAGEConv(a, b) for a, b in pairwise(widths))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(b) for b in widths[1:])

    def forward(self, x: Tensor, place: Tensor, batch: Tensor) -> Tensor:
        edge_index = _nearest(place, batch)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x, edge_index)).relu()
        return x


def _clouds(quick: bool) -> None:
    """One layer of equal width on clouds: building the lattice or searching neighbors included."""
    rows = []
    sizes = [(64, 2)] if quick else [(64, 1), (1024, 1), (1024, 16), (100_000, 1)]
    for (count, graphs), suggested in product(sizes, (False, True)):
        channels = 4 if quick else 64
        x, place, batch = _cloud(count, graphs, channels, suggested)
        lattice_layer = BilateralConv(channels, channels, 3)
        edge = EdgeConv(MLP([2 * channels, channels, channels], norm=None))
        contenders = {
            "ours": _training(lattice_layer, x, place, batch),
            "sage": _training(_OnNeighbors(SAGEConv(channels, channels)), x, place, batch),
            "edge": _training(_OnNeighbors(edge), x, place, batch),
        }
        time = in_turn(contenders, 1 if quick else 5 if count * graphs > 10**4 else 15)
        rows.append(
            [
                f"{graphs} x {count:,}, C = {channels}",
                _points_per_vertex(place, batch),
                *(ms(time[name]) for name in ("ours", "sage", "edge")),
                *(ratio(time["ours"], time[name]) for name in ("sage", "edge")),
            ]
        )
    columns = [
        "clouds x points",
        "points a vertex",
        "BilateralConv ms",
        "SAGEConv",
        "EdgeConv",
        "÷ SAGE",
        "÷ Edge",
    ]
    table("Steps of one layer, lattice or 16 nearest neighbors included, 1 thread", columns, rows)


def _points_per_vertex(place: Tensor, batch: Tensor) -> str:
    lattice = pg.Lattice.build(place, batch)
    return f"{lattice.num_points / lattice.num_vertices:.2g}"


def _layers(quick: bool) -> None:
    """Layers of a U-Net on a lattice that is kept, beside torch's or a cheaper layer."""
    rows = []
    for count, graphs, channels in [(64, 1, 4)] if quick else [(64, 1, 16), (1024, 16, 64)]:
        x, place, batch = _cloud(count, graphs, channels)
        lattice = pg.Lattice.build(place, batch)
        values = lattice.splat(x).requires_grad_()

        def on_lattice(
            layer: torch.nn.Module, v: Tensor = values, on: pg.Lattice = lattice
        ) -> Step:
            def step() -> None:
                out = layer(v, on)
                (out[0] if isinstance(out, tuple) else out).square().mean().backward()

            return step

        norm = torch.nn.BatchNorm1d(channels)
        contenders = {
            "convolution": on_lattice(LatticeConv(channels, channels, 3)),
            "norm": on_lattice(LatticeNorm(channels, 3)),
            "BatchNorm1d": lambda norm=norm, v=values: norm(v).square().mean().backward(),
            "max pooling": on_lattice(LatticePool(channels, channels, 3, "max")),
            "mean pooling": on_lattice(LatticePool(channels, channels, 3, "mean")),
        }
        time = in_turn(contenders, 1 if quick else 15)
        rows.append([f"{graphs} x {count:,}, C = {channels}", *map(ms, time.values())])
    table("Steps of layers on a kept lattice, ms, 1 thread", ["", *contenders], rows)


def _networks(quick: bool) -> None:
    """U-Nets of depth 2, with their Python calls and what is not overhead."""
    rows = []
    sizes = [(64, 1, 4)] if quick else [(64, 1, 16), (1024, 1, 16), (10_000, 1, 16), (1024, 16, 64)]
    for (count, graphs, channels), suggested in product(sizes, (False, True)):
        x, place, batch = _cloud(count, graphs, channels, suggested)
        net = LatticeUNet(channels, channels, channels, 3, depth=2)
        step = _training(net, x, place, batch if graphs > 1 else None)
        contenders = {"step": step, "sage": _training(_SageNet(channels), x, place, batch)}
        time = in_turn(contenders, 1 if quick else 3 if graphs > 1 else 15)
        rows.append(
            [
                f"{graphs} x {count:,}, C = {channels}",
                _points_per_vertex(place, batch),
                *(ms(time["step"]), f"{calls_of(step):,}", f"{kernel_share(step):.0%}"),
                *(ms(time["sage"]), ratio(time["step"], time["sage"])),
            ]
        )
    columns = ["clouds x points", "points a vertex", "ms", "Python calls"]
    columns += ["in kernels and products", "five SAGEConv ms", "÷ SAGE"]
    table("Steps of LatticeUNet of depth 2, 1 thread", columns, rows)


def _images(quick: bool) -> None:
    """LatticeCNet beside LeNet on digits of 28 x 28 pixels, with the products of one image, also
    with the lattices of the pixels kept from step to step."""
    side, images = (12, 2) if quick else (28, 16)
    generator = torch.Generator().manual_seed(0)
    pixel = torch.cartesian_prod(torch.arange(side), torch.arange(side)).float()
    feature, batch = pixel.repeat(images, 1), torch.arange(images).repeat_interleave(side**2)
    x = torch.rand(images * side**2, 1, generator=generator)
    small = (side - 4) // 2
    lenet = torch.nn.Sequential(
        torch.nn.Conv2d(1, 20, 5),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(20, 50, min(5, small)),
        torch.nn.MaxPool2d(2) if small > 5 else torch.nn.Identity(),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(500),
        torch.nn.ReLU(),
        torch.nn.Linear(500, 10),
    )
    cnet = LatticeCNet(1, 4 if quick else 16, 10, 2, extent=float(side), depth=1 if quick else 3)
    arguments = {
        "LeNet": (lenet, x.view(images, 1, side, side)),
        "LatticeCNet": (cnet, x, feature, batch),
        "LatticeCNet, kept lattices": (cnet, x, None, None, pg.Lattice.build(feature, batch)),
    }
    products = {name: _products(*each) / images for name, each in arguments.items()}
    time = in_turn({name: _training(*each) for name, each in arguments.items()}, 1 if quick else 9)
    rows = [
        [
            name,
            ms(time[name]),
            f"{products[name] / 1e6:.2f}",
            f"{time[name] / products[name] * 1e6:.2f}",
        ]
        for name in arguments
    ]
    columns = [f"{images} images of {side}²", "ms", "million products an image", "ms ÷ products"]
    table("Steps on images, 1 thread", columns, rows)


def _products(module: torch.nn.Module, *arguments: object) -> int:
    """Return the products of the convolutions and linear layers in a forward pass."""
    total = 0

    def count(layer: torch.nn.Module, inputs: tuple, out: Tensor) -> None:
        nonlocal total
        if isinstance(layer, LatticeConv):
            assert layer.filter_weight is not None
            total += layer.filter_weight.numel() * out.shape[0]
        else:
            assert isinstance(layer, torch.nn.Conv2d | torch.nn.Linear)
            total += layer.weight.numel() * out.numel() // out.shape[1]

    kinds = (torch.nn.Conv2d, torch.nn.Linear, LatticeConv)
    handles = [
        layer.register_forward_hook(count) for layer in module.modules() if isinstance(layer, kinds)
    ]
    with torch.no_grad():
        module(*arguments)
    for handle in handles:
        handle.remove()
    return total
