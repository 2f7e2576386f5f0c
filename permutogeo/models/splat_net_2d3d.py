"""Joint SPLATNet of two modalities."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MLP

from permutogeo.checks import check_integer, check_pair, fail, prefix_errors
from permutogeo.lattice import Incidence, Lattice
from permutogeo.models.splat_net import SplatNet
from permutogeo.nn import BilateralConv
from permutogeo.weights.pretrained import Pretrained


class JointLattices(NamedTuple):
    """The lattices of a call of :class:`SplatNet2D3D`.

    Args:
        points: One lattice over the points in space for each scale.
        samples: One lattice over the samples in the plane of their view for each scale.
        to_points: The lattice over the samples in space, and the points on it.
        to_samples: The lattice over the points in space, and the samples on it.
    """

    points: list[Lattice]
    samples: list[Lattice]
    to_points: tuple[Lattice, Incidence]
    to_samples: tuple[Lattice, Incidence]


class SplatNet2D3D(Pretrained):
    r"""The joint network of the `"SPLATNet: Sparse Lattice Networks for Point Cloud Processing"
    <https://arxiv.org/abs/1802.08275>`_ paper: points in space and the samples of one or several
    views of them (the pixels of photographs), each labeled with the help of the other.

    A :class:`SplatNet` runs over the points in space, another over the samples in the plane of
    their view. A bilateral convolution moves the features of the samples to the points through
    their common positions in space, and another moves the features of the points to the samples.
    MLPs predict from a side's own features and those it was given.

    Args:
        in_channels: Size of each input sample: of the points, and of the views.
        hidden_channels: Size of each hidden sample.
        out_channels: Size of each output sample: of the points, and of the views.
        num_layers: Number of layers of both networks.
        scales: Factors on the features, one lattice for each, see :class:`SplatNet`.
        dropout: Dropout probability before the predictions.

    Shapes:
        - x: :math:`((N, C_p), (P, C_v))`
        - position: :math:`((N, 3), (P, 3))`, positions in space divided by their bandwidth
        - plane: :math:`(P, 2)`, positions of the samples in their view, divided by their bandwidth
        - batch: :math:`((N), (P))` int64, the scene of each point and sample
        - view: :math:`(P)` int64, the view of each sample
        - output: :math:`((N, C'_p), (P, C'_v))`

    Example:

        >>> model = SplatNet2D3D((3, 3), 16, (4, 4))
        >>> x = torch.rand(100, 3), torch.rand(200, 3)
        >>> position = torch.rand(100, 3) * 8, torch.rand(200, 3) * 8
        >>> points, samples = model(x, position, torch.rand(200, 2) * 8)
        >>> points.shape, samples.shape
        (torch.Size([100, 4]), torch.Size([200, 4]))
    """

    def __init__(
        self,
        in_channels: tuple[int, int],
        hidden_channels: int,
        out_channels: tuple[int, int],
        num_layers: int = 2,
        scales: tuple[float, ...] = (1.0, 0.5),
        dropout: float = 0.0,
    ):
        super().__init__()
        self.in_channels = prefix_errors(self, check_pair, "in_channels", in_channels)
        self.out_channels = prefix_errors(self, check_pair, "out_channels", out_channels)
        check_integer(self, "hidden_channels", hidden_channels)
        self.hidden_channels = hidden_channels
        width = hidden_channels
        shared: dict[str, Any] = {"num_layers": num_layers, "scales": scales}
        self.points = SplatNet(self.in_channels[0], width, width, dim=3, **shared)
        self.samples = SplatNet(self.in_channels[1], width, width, dim=2, **shared)
        self.to_points = BilateralConv(width, width, dim=3, normalize="after")
        self.to_samples = BilateralConv(width, width, dim=3, normalize="after")
        single = {"allow_single_element": True}
        heads = [
            MLP([2 * width, width, out], dropout=dropout, norm_kwargs=single)
            for out in self.out_channels
        ]
        self.predict_points, self.predict_samples = heads
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        layers: Any = self.children()
        for layer in layers:
            layer.reset_parameters()

    def build_lattices(
        self,
        position: tuple[Tensor, Tensor],
        plane: Tensor,
        batch: tuple[Tensor, Tensor] | None = None,
        view: Tensor | None = None,
    ) -> JointLattices:
        """Return the lattices over points and samples, to build them once for several calls.

        Args:
            position: Position in space of the points and of the samples.
            plane: Position of the samples in their view.
            batch: Scene of the points and of the samples.
            view: View of each sample; samples of different views are not neighbors in the plane.
        """
        points, samples = prefix_errors(self, check_pair, "position", position)
        scene = (None, None) if batch is None else prefix_errors(self, check_pair, "batch", batch)
        view = scene[1] if view is None else view
        scales = self.points.scales
        return JointLattices(
            [Lattice.build(points * scale, scene[0]) for scale in scales],
            [Lattice.build(plane * scale, view) for scale in scales],
            Lattice.build_bipartite(samples, points, scene[1], scene[0]),
            Lattice.build_bipartite(points, samples, scene[0], scene[1]),
        )

    def forward(
        self,
        x: tuple[Tensor, Tensor],
        position: tuple[Tensor, Tensor] | None,
        plane: Tensor | None,
        batch: tuple[Tensor, Tensor] | None = None,
        view: Tensor | None = None,
        lattices: JointLattices | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Predict at the points and at the samples of the views.

        Args:
            x: Values at the points and at the samples.
            position: Position in space of the points and of the samples; like ``plane``, may be
                ``None`` if ``lattices`` are given.
            plane: Position of the samples in their view.
            batch: Scene of the points and of the samples.
            view: View of each sample; samples of different views are not neighbors in the plane.
            lattices: The result of :meth:`build_lattices`, if they were built before.
        """
        x_points, x_samples = prefix_errors(self, check_pair, "x", x)
        if position is None and plane is None and lattices is not None:
            points, samples = None, None
        else:
            points, samples = prefix_errors(self, check_pair, "position", position)
            if plane is None or plane.shape[0] != samples.shape[0]:
                got = None if plane is None else len(plane)
                fail(self, f"Expected 'plane' of {len(samples)} samples (got {got})")
        if lattices is not None and not isinstance(lattices, JointLattices):
            fail(self, f"Expected 'lattices' of build_lattices (got {type(lattices).__name__})")
        given = lattices or (None,) * 4
        scene = (None, None) if batch is None else prefix_errors(self, check_pair, "batch", batch)
        view = scene[1] if view is None else view
        own = self.points(x_points, points, scene[0], given[0]).relu()
        seen = self.samples(x_samples, plane, view, given[1]).relu()
        back = None if batch is None else (scene[1], scene[0])
        there = None if samples is None else (samples, points)
        here = None if samples is None else (points, samples)
        to_points = self.to_points(seen, there, back, given[2])
        to_samples = self.to_samples(own, here, batch, given[3])
        return (
            self.predict_points(torch.cat([own, to_points], 1)),
            self.predict_samples(torch.cat([seen, to_samples], 1)),
        )

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        return f"{type(self).__name__}({sizes}, scales={self.points.scales})"
