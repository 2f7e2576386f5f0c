"""Bilateral neural network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn import BatchNorm, Linear

from permutogeo.checks import check_choice, check_integer, fail
from permutogeo.models.base import TASKS, Batches, Features, Lattices, PointModel
from permutogeo.models.readout import readout_of_task, readout_size
from permutogeo.nn import BilateralConv


class BilateralNet(PointModel):
    r"""The bilateral neural network from the `"Learning Sparse High Dimensional Filters: Image
    Filtering, Dense CRFs and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper:
    a stack of bilateral convolutions that share one lattice.

    .. math::
        \mathbf{X}^{(l + 1)} = \textrm{ReLU} \left( \textrm{BatchNorm} \left(
        \textrm{BilateralConv}(\mathbf{X}^{(l)}) + \mathbf{X}^{(l)} \mathbf{W}^{(l)} \right) \right)

    where :math:`\mathbf{W}^{(l)}` is a linear layer that preserves the detail of each point, which
    the lattice smooths. A linear layer on the concatenated outputs of all layers predicts at each
    point; with ``task="graph"``, on their mean and maximum over each graph. With ``plain=True``,
    the network is that of the paper's experiments: bilateral convolutions with ReLU in between, the
    last of which predicts. ``from_pretrained("tiles")`` finds the tile in the images of
    :class:`permutogeo.datasets.Tiles`, from colors and the features ``(x / 20, y / 20, 10 r, 10 g,
    10 b)``.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample, or one for each hidden layer.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of bilateral convolutions.
        radius: Stencil radius.
        normalize: Normalization, see :class:`permutogeo.nn.BilateralConv`.
        init: Initialization, see :class:`permutogeo.nn.BilateralConv`.
        dropout: Dropout probability before the prediction.
        plain: If ``True``, there are no linear layers and norms.
        filler: Standard deviation of normally distributed initial filters of a plain network,
            instead of ``init``; 0.001 in the authors' code.
        task: ``"point"`` or ``"graph"``.
        context: If ``True``, each point also sees the mean and maximum of the concatenated outputs
            over its graph.
        scale: Factor on the features; :meth:`from_data` chooses it.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C_{out})`, :math:`(N', C_{out})`, or :math:`(B, C_{out})` with
          ``task="graph"``

    Example:

        >>> model = BilateralNet(3, 16, 4, dim=5, num_layers=2)
        >>> model(torch.rand(100, 3), torch.rand(100, 5) * 4).shape
        torch.Size([100, 4])
        >>> tiles = BilateralNet(3, (32, 16), 2, dim=5, plain=True, init="kaiming")
        >>> sum(parameter.numel() for parameter in tiles.parameters())
        40370
    """

    pretrained: ClassVar = {"tiles": "tiles"}
    tasks: ClassVar = TASKS
    predict: Linear | None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int | Sequence[int],
        out_channels: int,
        dim: int,
        num_layers: int = 3,
        radius: int = 1,
        normalize: str | None = "after",
        init: str = "gaussian",
        dropout: float = 0.0,
        plain: bool = False,
        filler: float | None = None,
        task: str = "point",
        context: bool = False,
        scale: float = 1.0,
    ):
        widths = _sizes(hidden_channels, num_layers - plain)
        super().__init__(in_channels, max(widths, default=1), out_channels, dim, num_layers, scale)
        if len(widths) != num_layers - plain:
            expected = f"'hidden_channels' of {num_layers - plain} sizes, one for each hidden layer"
            fail(self, f"Expected {expected} (got {widths})")
        for width in widths:
            check_integer(self, "hidden_channels", width)
        if plain and in_channels == -1:
            fail(self, "Expected 'in_channels' of 1 or more with plain=True (got -1)")
        check_choice(self, "task", task, TASKS)
        if plain and (task != "point" or context):
            got = f"task={task!r}, context={context}"
            fail(self, f"Expected task='point' without context with plain=True (got {got})")
        self.task, self.context = task, context
        if isinstance(hidden_channels, Sequence):
            self.hidden_channels = tuple(widths)
        self.radius, self.normalize, self.init = radius, normalize, init
        self.dropout, self.plain, self.filler = dropout, plain, filler
        sizes = [in_channels, *widths, *[out_channels] * plain]
        self.convs = torch.nn.ModuleList(
            # The norm that follows has a bias.
            BilateralConv(a, b, dim, radius, bias=plain, normalize=normalize, init=init)
            for a, b in pairwise(sizes)
        )
        self.lins, self.norms = torch.nn.ModuleList(), torch.nn.ModuleList()
        self.register_module("predict", None)
        if not plain:
            self.lins.extend(Linear(a, b, bias=False) for a, b in pairwise(sizes))
            self.norms.extend(BatchNorm(width, allow_single_element=True) for width in widths)
            self.predict = Linear(readout_size(sum(widths), task, context), out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        if self.plain and self.filler is not None:
            for conv in self.convs:
                assert isinstance(conv, BilateralConv) and conv.filter_weight is not None
                torch.nn.init.normal_(conv.filter_weight, std=self.filler)

    def forward(
        self, x: Tensor, feature: Features, batch: Batches = None, lattice: Lattices = None
    ) -> Tensor:
        """Predict at each point, or for each graph.

        Args:
            x: Values at the input points.
            feature: Features of the points, divided by their bandwidths; a pair for input and
                output points; may be ``None`` if ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: The lattice over the scaled features, or the result of
                ``Lattice.build_bipartite``, if it was built before.
        """
        shared, at = self.resolve(x, feature, batch, lattice)
        if self.predict is None:
            for conv in self.convs[:-1]:
                x = conv(x, None, None, shared).relu()
            return self.convs[-1](x, None, None, shared if at is None else (shared, at))
        outs = []
        for conv, lin, norm in zip(self.convs, self.lins, self.norms, strict=True):
            x = norm(conv(x, None, None, shared) + lin(x)).relu()
            outs.append(x)
        out = readout_of_task(torch.cat(outs, 1), shared, at, self.task, self.context)
        return self.predict(torch.nn.functional.dropout(out, self.dropout, self.training))

    def _options(self) -> dict[str, Any]:
        changed = self._changed(plain=False, task="point", context=False)
        return {"radius": self.radius, **changed}


def _sizes(channels: int | Sequence[int], count: int) -> list[int]:
    """Return the size of each hidden layer."""
    return list(channels) if isinstance(channels, Sequence) else [channels] * count
