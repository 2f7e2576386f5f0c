"""SPLATNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn import BatchNorm, Linear

from permutogeo.checks import check_choice, fail
from permutogeo.lattice import Incidence, Lattice
from permutogeo.models.base import TASKS, Batches, Features, PointModel
from permutogeo.models.readout import readout_of_task, readout_size
from permutogeo.nn import BilateralConv


class SplatNet(PointModel):
    r"""A network after the `"SPLATNet: Sparse Lattice Networks for Point Cloud Processing"
    <https://arxiv.org/abs/1802.08275>`_ paper: bilateral convolutions on lattices of several
    scales, concatenated, with linear layers on the points in between.

    .. math::
        \mathbf{X}^{(l + 1)} = \textrm{ReLU} \left( \textrm{BatchNorm} \left( \left[
        \mathbf{X}^{(l)}, \, \textrm{BilateralConv}_{s_1}(\mathbf{X}^{(l)}), \ldots,
        \textrm{BilateralConv}_{s_S}(\mathbf{X}^{(l)}) \right] \mathbf{W}^{(l)} \right) \right)

    where the scale :math:`s` multiplies the features, so that a small :math:`s` means a large
    neighborhood. A linear layer on the concatenated outputs of all layers predicts at each point;
    with ``task="graph"``, on their mean and maximum over each graph. At other output points, the
    concatenated outputs are interpolated by a Gaussian of the first scale.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of layers.
        scales: Factors on the features, one lattice for each.
        radius: Stencil radius.
        normalize: Normalization, see :class:`permutogeo.nn.BilateralConv`.
        init: Initialization, see :class:`permutogeo.nn.BilateralConv`.
        dropout: Dropout probability before the prediction.
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

        >>> model = SplatNet(3, 16, 4, dim=3, scales=(1.0, 0.5))
        >>> model(torch.rand(100, 3), torch.rand(100, 3) * 8).shape
        torch.Size([100, 4])
    """

    tasks: ClassVar = TASKS

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int = 2,
        scales: Sequence[float] = (1.0, 0.5, 0.25),
        radius: int = 1,
        normalize: str | None = "after",
        init: str = "gaussian",
        dropout: float = 0.0,
        task: str = "point",
        context: bool = False,
        scale: float = 1.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers, scale)
        check_choice(self, "task", task, TASKS)
        self.task = task
        if not scales or not all(0 < scale < float("inf") for scale in scales):
            fail(self, f"Expected 'scales' of positive numbers (got {scales!r})")
        self.scales = tuple(float(scale) for scale in scales)
        self.dropout, self.context = dropout, context
        count, width = len(self.scales), hidden_channels
        self.lift = Linear(in_channels, width, bias=False)
        self.convs = torch.nn.ModuleList(
            BilateralConv(width, width, dim, radius, normalize=normalize, init=init)
            for _ in range(num_layers * count)
        )
        self.lins = torch.nn.ModuleList(
            Linear((1 + count) * width, width, bias=False) for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            BatchNorm(width, allow_single_element=True) for _ in range(num_layers + 1)
        )
        size = readout_size((num_layers + 1) * width, task, context)
        self.predict = Linear(size, out_channels)
        self.reset_parameters()

    def forward(
        self,
        x: Tensor,
        feature: Features,
        batch: Batches = None,
        lattices: Sequence[Lattice | tuple[Lattice, Incidence]] | None = None,
    ) -> Tensor:
        """Predict at each point, or for each graph.

        Args:
            x: Values at the input points.
            feature: Features of the points, divided by their bandwidths; a pair for input and
                output points; may be ``None`` if ``lattices`` are given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattices: One lattice for each of ``scales``, if they were built before; for other
                output points the first is the result of ``Lattice.build_bipartite``.
        """
        if lattices is not None:
            found = len(lattices) if isinstance(lattices, tuple | list) else type(lattices).__name__
            if found != len(self.scales):
                expected = f"{len(self.scales)} 'lattices', one for each scale"
                fail(self, f"Expected {expected} (got {found})")
        given: Sequence = lattices or [None] * len(self.scales)
        first, at = self.resolve(x, feature, batch, given[0], self.scales[0])
        own = feature[0] if isinstance(feature, tuple | list) else feature
        graphs = batch[0] if isinstance(batch, tuple | list) else batch
        lattices = [first]
        for scale, lattice in zip(self.scales[1:], given[1:], strict=True):
            coarse = scale < self.scales[0]
            lattices.append(self.resolve(x, own, graphs, lattice, scale, not coarse)[0])
        x = self.norms[0](self.lift(x)).relu()
        outs = [x]
        for i, lin in enumerate(self.lins):
            convs = self.convs[i * len(lattices) :]
            sides = [conv(x, None, None, each) for conv, each in zip(convs, lattices, strict=False)]
            x = self.norms[i + 1](lin(torch.cat([x, *sides], 1))).relu()
            outs.append(x)
        out = readout_of_task(torch.cat(outs, 1), first, at, self.task, self.context)
        return self.predict(torch.nn.functional.dropout(out, self.dropout, self.training))

    def _options(self) -> dict[str, Any]:
        return {"scales": self.scales, **self._changed(task="point", context=False)}
