"""Base class of the models, and their building blocks."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP, BatchNorm, Linear

from permutogeo.checks import (
    check_integer,
    check_matrix,
    check_parameter_dtype,
    check_parameters,
    fail,
)
from permutogeo.lattice import Incidence, Lattice, suggest_scale
from permutogeo.lattice.normalization import append_ones, divide_by_mass
from permutogeo.lattice.points import LatticeAndOutput, resolve_lattice
from permutogeo.nn import LatticeAttention, LatticeConv, LatticeNorm
from permutogeo.weights.pretrained import Pretrained

if TYPE_CHECKING:
    from typing_extensions import Self

Features = Tensor | tuple[Tensor, Tensor] | None
Batches = Tensor | tuple[Tensor, Tensor] | None
Lattices = Lattice | tuple[Lattice, Incidence] | None
TASKS = ("point", "graph")


class PointModel(Pretrained):
    """Base class of the models with a prediction for each point or graph.

    Args:
        scale: Factor on the features, such as :func:`permutogeo.suggest_scale` returns.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int,
        scale: float = 1.0,
    ):
        super().__init__()
        if in_channels != -1:
            check_integer(self, "in_channels", in_channels)
        check_integer(self, "hidden_channels", hidden_channels)
        check_integer(self, "out_channels", out_channels)
        check_integer(self, "dim", dim)
        check_integer(self, "num_layers", num_layers)
        if not 0 < scale < float("inf"):
            fail(self, f"Expected a positive 'scale' (got {scale})")
        self.in_channels = in_channels
        self.hidden_channels: int | tuple[int, ...] = hidden_channels
        self.out_channels = out_channels
        self.dim = dim
        self.num_layers = num_layers
        self.scale = float(scale)

    @classmethod
    def from_data(
        cls,
        data: Any,
        hidden_channels: int = 32,
        out_channels: int | None = None,
        *,
        points_per_vertex: float = 3.0,
        **options: Any,
    ) -> Self:
        """Return a model for a dataset: sizes and task from its first item, the scale of the
        features from a sample.

        Args:
            data: PyG data, a dataset or a list of data, with ``x``, ``feature`` or ``pos``, and
                ``y``. Labels of each point give a point task, others a graph task.
            hidden_channels: Size of each hidden sample.
            out_channels: Size of each output sample; by default the number of classes, or the
                columns of a floating-point ``y``.
            points_per_vertex: See :func:`permutogeo.suggest_scale`.
            options: Further arguments of the model.
        """
        items = [data] if hasattr(data, "num_nodes") else data
        if len(items) == 0:
            raise ValueError(f"{cls.__name__}: Expected a dataset that is not empty")
        first = items[0]
        feature = getattr(first, "feature", None)
        feature = getattr(first, "pos", None) if feature is None else feature
        if not isinstance(getattr(first, "x", None), Tensor) or not isinstance(feature, Tensor):
            raise ValueError(
                f"{cls.__name__}: Expected data with 'x' and 'feature' or 'pos' (got {first})"
            )
        y = getattr(first, "y", None)
        if out_channels is None:
            if not isinstance(y, Tensor):
                raise ValueError(f"{cls.__name__}: Expected 'out_channels', or data with 'y'")
            out_channels = _num_outputs(cls.__name__, data, items, y)
        if isinstance(y, Tensor) and len(y) != first.num_nodes:
            options.setdefault("task", "graph")
        scale = suggest_scale(items, points_per_vertex)
        sizes = (first.x.shape[1], hidden_channels, out_channels)
        return cls(*sizes, dim=feature.shape[1], scale=scale, **options)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for module in self.children():
            # ModuleList has no reset_parameters.
            layers: Any = module if isinstance(module, torch.nn.ModuleList) else [module]
            for layer in layers:
                layer.reset_parameters()

    def resolve(
        self,
        x: Tensor,
        feature: Features,
        batch: Batches = None,
        lattice: Lattices = None,
        factor: float = 1.0,
        warn: bool = True,
    ) -> LatticeAndOutput:
        """Check the arguments of a call and return the lattice over its points, and the incidence
        of its output points or ``None`` where these are the input points.

        Args:
            factor: Further factor on the features.
            warn: Whether to warn about the scale.
        """
        total = self.scale * factor
        scale = None if total == 1 else partial(torch.mul, other=total)
        found, at = resolve_lattice(feature, batch, lattice, layer=self, scale=scale, warn=warn)
        channels = self.in_channels
        rows = found.num_points
        check_matrix(self, "x", x, device=found.device, rows=rows, channels=channels)
        if channels != -1:
            check_parameters(self, x)
        check_parameter_dtype(self, "x", x)
        if getattr(self, "task", "point") == "graph":
            if at is not None:
                fail(self, "Expected no output points with task='graph' (got a pair)")
            if found.sharded:
                fail(self, "Expected task='point' on a sharded lattice (got 'graph')")
        return found, at

    def _options(self) -> dict[str, Any]:
        """Return the options that the representation shows beside the sizes."""
        return {}

    def __repr__(self) -> str:
        options = {"dim": self.dim, "num_layers": self.num_layers, **self._options()}
        if self.scale != 1:
            options["scale"] = round(self.scale, 4)
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        return f"{type(self).__name__}({sizes}, {shown})"


class GraphBatchNorm(BatchNorm):
    """PyG's batch norm over graphs, one graph allowed; in evaluation it does not look at their
    number, which torch.export does not know."""

    def __init__(self, in_channels: int):
        super().__init__(in_channels, allow_single_element=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else self.module(x)


class LatticeBlock(torch.nn.Module):
    """Lattice convolutions with norm and ReLU, residual where the sizes allow."""

    def __init__(self, in_channels: int, out_channels: int, dim: int, num_layers: int):
        super().__init__()
        widths = [in_channels, *[out_channels] * num_layers]
        self.convs = torch.nn.ModuleList(
            LatticeConv(a, b, dim, bias=False) for a, b in pairwise(widths)
        )
        self.norms = torch.nn.ModuleList(LatticeNorm(out_channels, dim) for _ in self.convs)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for layer in [*self.convs, *self.norms]:
            layer.reset_parameters()

    def forward(self, values: Tensor, lattice: Lattice) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            out = norm(conv(values, lattice), lattice)
            values = (out + values if out.shape == values.shape else out).relu()
        return values


class AttentionBlock(torch.nn.Module):
    """Lattice attention and an MLP, each residual after a norm, ``num_layers`` times.

    A channelwise convolution before each attention tells directions apart, whose weights are equal
    at the start: the positional encoding of the `"Conditional Positional Encodings for Vision
    Transformers" <https://arxiv.org/abs/2102.10882>`_ paper. A norm follows the last layer.
    """

    #: Channels of a head.
    head_channels = 16

    def __init__(self, in_channels: int, out_channels: int, dim: int, num_layers: int):
        super().__init__()
        heads = max(1, out_channels // self.head_channels)
        while out_channels % heads:
            heads -= 1
        self.lin = Linear(in_channels, out_channels)
        self.convs = torch.nn.ModuleList(
            LatticeConv(out_channels, out_channels, dim, groups=out_channels)
            for _ in range(num_layers)
        )
        self.attentions = torch.nn.ModuleList(
            LatticeAttention(out_channels, out_channels, dim, heads) for _ in range(num_layers)
        )
        self.mlps = torch.nn.ModuleList(
            MLP([out_channels, 2 * out_channels, out_channels], act="gelu", norm=None)
            for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            LatticeNorm(out_channels, dim) for _ in range(2 * num_layers + 1)
        )

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for layer in [self.lin, *self.convs, *self.attentions, *self.mlps, *self.norms]:
            layer.reset_parameters()

    def forward(self, values: Tensor, lattice: Lattice) -> Tensor:
        values = self.lin(values)
        layers = zip(self.convs, self.attentions, self.mlps, strict=True)
        for i, (conv, attention, mlp) in enumerate(layers):
            values = values + conv(values, lattice)
            values = values + attention(self.norms[2 * i](values, lattice), lattice)
            values = values + mlp(self.norms[2 * i + 1](values, lattice))
        return self.norms[-1](values, lattice)


def splat_mean(lattice: Lattice, x: Tensor, at: Incidence | None = None) -> Tensor:
    """Splat and divide by the mass: the weighted mean of the points at each vertex."""
    if at is not None:
        return divide_by_mass(lattice.splat(append_ones(x), at))
    return divide_by_mass(lattice.splat(x), lattice.mass(x.dtype))


def gaussian_mean_at(lattice: Lattice, x: Tensor, at: Incidence | None) -> Tensor:
    """Return values at the input points as they are, or their Gaussian mean at other points."""
    if at is None:
        return x
    return divide_by_mass(lattice.slice(lattice.blur(lattice.splat(append_ones(x))), at))


def count_graphs(batch: Tensor | None) -> int:
    """Return the number of graphs of a batch vector, one without it."""
    if batch is None:
        return 1
    if batch.shape[0] == 0:
        return 0
    # Of `item()`, unlike `int()`, torch.export keeps a symbol.
    count: Any = batch.max().item() + 1
    torch._check(count >= 1)
    return count


def output_batch(lattice: Lattice, at: Incidence | None) -> Tensor:
    """Return the graph of each output point: of the points of a lattice, or of ``at``."""
    batch = lattice.batch
    if at is not None:
        batch = None if lattice.others is None else lattice.others[1]
    if batch is None:
        points = lattice.num_points if at is None else at.num_points
        batch = torch.zeros(points, dtype=torch.int64, device=lattice.device)
    return batch


def readout(values: Tensor, graph: Tensor | None, size: int) -> Tensor:
    """Return mean and maximum over each of ``size`` graphs, ``[B, 2 C]``; 0 of an empty graph."""
    if graph is None:
        graph = torch.zeros(values.shape[0], dtype=torch.int64, device=values.device)
    shape = (size, values.shape[1])
    index = graph.unsqueeze(1)
    mass = values.new_zeros(size, 1).scatter_add(0, index, torch.ones_like(values[:, :1]))
    index = index.expand(-1, values.shape[1])
    mean = values.new_zeros(shape).scatter_add(0, index, values) / mass.clamp(min=1)
    # Empty graphs keep the zeros.
    high = values.new_zeros(shape).scatter_reduce(0, index, values, "amax", include_self=False)
    return torch.cat([mean, high], 1)


def _num_outputs(owner: str, data: Any, items: Any, y: Tensor) -> int:
    """Return the number of classes of a dataset, or the columns of its targets."""
    if y.is_floating_point():
        return 1 if y.dim() < 2 else y.shape[1]
    known = getattr(data, "num_classes", None)
    if known:
        return known
    labels = [item.y for item in items if item.y.numel()]
    lowest = min((int(label.min()) for label in labels), default=0)
    if lowest < 0:
        raise ValueError(
            f"{owner}: Expected labels of 0 or more (got {lowest}); state 'out_channels' if this "
            "label is to be ignored"
        )
    return 1 + max((int(label.max()) for label in labels), default=0)
