"""Base class of the models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from permutogeo.checks import (
    check_integer,
    check_matrix,
    check_parameter_dtype,
    check_parameters,
    fail,
)
from permutogeo.lattice import Incidence, Lattice, suggest_scale
from permutogeo.lattice.points import LatticeAndOutput, resolve_lattice
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

    #: What the model can predict for: ``"point"``, ``"graph"`` or both, by its argument ``task``.
    tasks: ClassVar[tuple[str, ...]] = ("point",)
    task = "point"
    context = False

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
            options: Further arguments of the model; a ``scale`` here is taken as it is.
        """
        dataset = isinstance(data, torch.utils.data.Dataset) or not hasattr(data, "num_nodes")
        items = data if dataset else [data]
        if len(items) == 0:
            raise ValueError(f"{cls.__name__}: Expected a dataset that is not empty")
        first = items[0]
        x, y = getattr(first, "x", None), getattr(first, "y", None)
        feature = getattr(first, "feature", None)
        feature = getattr(first, "pos", None) if feature is None else feature
        if not isinstance(x, Tensor) or x.dim() != 2 or not isinstance(feature, Tensor):
            raise ValueError(
                f"{cls.__name__}: Expected data with 'x' of shape [N, C] and 'feature' or 'pos' "
                f"(got {first})"
            )
        if out_channels is None:
            if not isinstance(y, Tensor):
                raise ValueError(f"{cls.__name__}: Expected 'out_channels', or data with 'y'")
            out_channels = _num_outputs(cls.__name__, data, items, y)
        if isinstance(y, Tensor):
            cls._choose_task(_task_of(cls.__name__, first, x, y), options)
        if "scale" not in options:
            options["scale"] = suggest_scale(items, points_per_vertex)
        return cls(x.shape[1], hidden_channels, out_channels, dim=feature.shape[1], **options)

    @classmethod
    def _choose_task(cls, task: str, options: dict[str, Any]) -> None:
        """Add the task of a dataset to the arguments of a model that has more than one."""
        if len(cls.tasks) > 1:
            options.setdefault("task", task)
        elif task not in cls.tasks:
            expected = f"Expected 'y' of a {cls.tasks[0]} (got that of a {task})"
            raise ValueError(f"{cls.__name__}: {expected}")

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
        if self.task == "graph":
            if at is not None:
                fail(self, "Expected no output points, since it predicts for graphs (got a pair)")
            if found.sharded:
                fail(self, "Expected a lattice that is not sharded, since it predicts for graphs")
        if self.context and found.sharded:
            fail(self, "Expected context=False on a sharded lattice (got True)")
        return found, at

    def _options(self) -> dict[str, Any]:
        """Return the options that the representation shows beside the sizes."""
        return {}

    def _changed(self, **defaults: Any) -> dict[str, Any]:
        """Return the options whose values are not the defaults."""
        return {
            name: getattr(self, name)
            for name, default in defaults.items()
            if getattr(self, name) != default
        }

    def __repr__(self) -> str:
        options = {"dim": self.dim, "num_layers": self.num_layers, **self._options()}
        if self.scale != 1:
            options["scale"] = round(self.scale, 4)
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        return f"{type(self).__name__}({sizes}, {shown})"


def _task_of(owner: str, item: Any, x: Tensor, y: Tensor) -> str:
    """Return whether an item has a target for each point or for each graph."""
    if y.shape[:1] == x.shape[:1]:
        return "point"
    graphs = getattr(item, "num_graphs", 1)
    if y.dim() == 1 and not y.is_floating_point() and len(y) != graphs:
        raise ValueError(
            f"{owner}: Expected 'y' with a label for each of the {len(x)} points, or one for a "
            f"graph (got {len(y)} labels)"
        )
    return "graph"


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
