"""The fast bilateral solver with fixed or learned bandwidths and smoothness."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo.checks import check_integer, check_scalar, fail, prefix_errors
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.points import Pair, scale_features
from permutogeo.nn.bandwidth import Bandwidth
from permutogeo.solvers import SolveReport, bilateral_label_propagation, bilateral_solve

LatticeOrPair = Lattice | tuple[Lattice, Incidence]


class _Solver(Module):
    """Base class of the bilateral solvers: bandwidths, smoothness and convergence."""

    log_lam: Parameter | None
    #: Convergence of the last call.
    report: SolveReport | None

    def __init__(
        self,
        dim: int,
        sigma: float | Sequence[float],
        lam: float,
        learn_sigma: bool,
        learn_lam: bool,
        tolerance: float,
        max_iterations: int,
    ):
        super().__init__()
        check_integer(self, "dim", dim)
        check_integer(self, "max_iterations", max_iterations)
        self.dim, self.initial_lam = dim, float(check_scalar(self, "lam", lam))
        self.tolerance = float(check_scalar(self, "tolerance", tolerance, below=1.0))
        self.max_iterations, self.report = max_iterations, None
        self.bandwidth = Bandwidth(self, dim, sigma, learn_sigma)
        self.register_parameter("log_lam", Parameter(torch.empty(())) if learn_lam else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        self.bandwidth.reset_parameters()
        if self.log_lam is not None:
            torch.nn.init.constant_(self.log_lam, math.log(self.initial_lam))

    @property
    def sigma(self) -> Tensor:
        """The bandwidth of each feature, ``[d]``."""
        return self.bandwidth.sigma

    @property
    def lam(self) -> Tensor:
        """The smoothness, a scalar."""
        return torch.tensor(self.initial_lam) if self.log_lam is None else self.log_lam.exp()

    def _points(
        self, feature: Tensor | Pair | None, lattice: LatticeOrPair | None
    ) -> Tensor | Pair | None:
        """Return the features divided by the bandwidths."""
        if lattice is not None and self.bandwidth.learned:
            fail(self, "Expected no 'lattice' with learn_sigma=True, since sigma moves the points")
        return scale_features(self, feature, lattice, self.bandwidth)

    def extra_repr(self) -> str:
        each = [round(value, 6) for value in self.sigma.tolist()]
        parts = [f"dim={self.dim}", f"sigma={each[0] if len(set(each)) == 1 else each}"]
        parts.append(f"lam={float(self.lam.detach()):g}")
        if self.bandwidth.learned:
            parts.append("learn_sigma=True")
        if self.log_lam is not None:
            parts.append("learn_lam=True")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class BilateralSolver(_Solver):
    r"""The bilateral solver from the `"The Fast Bilateral Solver"
    <https://arxiv.org/abs/1511.03296>`_ paper, on the permutohedral lattice; the module of
    :func:`permutogeo.solvers.bilateral_solve`.

    .. math::
        \mathbf{x} = \mathbf{S}^{\top} \mathbf{y}, \qquad \min_{\mathbf{y}} \;
        \frac{\lambda}{2} \sum_{uv} \hat{W}_{uv} |\mathbf{y}_u - \mathbf{y}_v|^2 +
        \sum_i c_i \sum_v S_{vi} |\mathbf{y}_v - \mathbf{t}_i|^2

    where :math:`\mathbf{S}` splats points to vertices, :math:`\hat{\mathbf{W}} = \mathbf{N}
    \mathbf{B} \mathbf{N}` is the lattice's blur :math:`\mathbf{B}`, made symmetric and scaled to be
    bistochastic, :math:`\mathbf{t}` are targets and :math:`\mathbf{c}` their confidences. The
    solution is that of the linear system

    .. math::
        \left( \lambda (\mathrm{diag}(\hat{\mathbf{W}} \mathbf{1}) - \hat{\mathbf{W}}) +
        \mathrm{diag}(\mathbf{S} \mathbf{c}) \right) \mathbf{y} = \mathbf{S} (\mathbf{c} \circ
        \mathbf{t})

    by conjugate gradients with the Jacobi preconditioner. It is a weighted mean of the targets at
    every point. A filter reaches a few bandwidths; the solver reaches any distance along similar
    features, so that few targets suffice.

    Args:
        dim: Feature dimension :math:`d`.
        sigma: Bandwidth, one for all features or one for each.
        lam: Smoothness :math:`\lambda`.
        learn_sigma: If ``True``, the logarithms of the bandwidths are learned.
        learn_lam: If ``True``, the logarithm of :math:`\lambda` is learned.
        tolerance: Relative residual at which conjugate gradients stop.
        max_iterations: Most iterations. A ``RuntimeWarning`` with the residual if not converged;
            ``report`` holds the convergence of the last call.

    Shapes:
        - target: :math:`(N, C)`
        - confidence: :math:`(N)` or :math:`(N, C)`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C)`, or :math:`(N', C)`

    Example:

        >>> solver = BilateralSolver(dim=2, sigma=0.1, lam=4.0)
        >>> feature, confidence = torch.rand(200, 2), torch.rand(200)
        >>> solver(torch.rand(200, 3), confidence, feature).shape
        torch.Size([200, 3])
        >>> solver.report.converged
        True
    """

    def __init__(
        self,
        dim: int,
        sigma: float | Sequence[float] = 1.0,
        lam: float = 1.0,
        learn_sigma: bool = False,
        learn_lam: bool = False,
        tolerance: float = 1e-4,
        max_iterations: int = 500,
    ):
        super().__init__(dim, sigma, lam, learn_sigma, learn_lam, tolerance, max_iterations)

    def forward(
        self,
        target: Tensor,
        confidence: Tensor | None,
        feature: Tensor | Pair | None,
        batch: Tensor | Pair | None = None,
        lattice: LatticeOrPair | None = None,
        hard: Tensor | None = None,
    ) -> Tensor:
        """Solve for values at points.

        Args:
            target: Values at the input points; ignored where the confidence is 0.
            confidence: Weight of each target; ``None`` for ones.
            feature: Features of the points; a pair for input and output points; may be ``None`` if
                ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: ``Lattice.build(feature / sigma, batch)``, or the result of
                ``Lattice.build_bipartite`` for a pair.
            hard: Points that keep their targets exactly, ``[N]`` bool.
        """
        feature = self._points(feature, lattice)
        found: list[SolveReport] = []
        settings = (hard, self.tolerance, self.max_iterations, lattice, found)
        arguments = (target, confidence, feature, batch, self.lam, *settings)
        out = prefix_errors(self, bilateral_solve, *arguments)
        self.report = found[0]
        return out


class BilateralLabelPropagation(_Solver):
    """Propagation of sparse labels, such as scribbles or clicks, to all points by the
    `"The Fast Bilateral Solver" <https://arxiv.org/abs/1511.03296>`_; the module of
    :func:`permutogeo.solvers.bilateral_label_propagation`.

    Args:
        num_classes: Number of labels :math:`L`.
        hard: Whether labels are kept exactly.
        balance: Power of the label frequencies that the solution is divided by.
        dim, sigma, lam, learn_sigma, learn_lam, tolerance, max_iterations: As in
            :class:`BilateralSolver`.

    Shapes:
        - label: :math:`(N)` int64, -1 for none
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, L)` or :math:`(N', L)`, the probability of each label

    Example:

        >>> label = torch.full((200,), -1)
        >>> label[0], label[1] = 0, 1
        >>> propagate = BilateralLabelPropagation(2, dim=3, sigma=0.2)
        >>> propagate(label, torch.rand(200, 3)).argmax(1).shape
        torch.Size([200])
    """

    def __init__(
        self,
        num_classes: int,
        dim: int,
        sigma: float | Sequence[float] = 1.0,
        lam: float = 1.0,
        hard: bool = False,
        balance: float = 0.25,
        learn_sigma: bool = False,
        learn_lam: bool = False,
        tolerance: float = 1e-3,
        max_iterations: int = 500,
    ):
        super().__init__(dim, sigma, lam, learn_sigma, learn_lam, tolerance, max_iterations)
        check_integer(self, "num_classes", num_classes)
        self.num_classes, self.hard, self.balance = num_classes, hard, balance

    def forward(
        self,
        label: Tensor,
        feature: Tensor | Pair | None,
        batch: Tensor | Pair | None = None,
        lattice: LatticeOrPair | None = None,
    ) -> Tensor:
        """Propagate labels.

        Args:
            label: Label of each input point, -1 for none.
            feature: Features of the points; a pair for input and output points; may be ``None`` if
                ``lattice`` is given.
            batch: Graph of each point; each graph needs a label.
            lattice: ``Lattice.build(feature / sigma, batch)``, or the result of
                ``Lattice.build_bipartite`` for a pair.
        """
        feature = self._points(feature, lattice)
        found: list[SolveReport] = []
        settings = (self.hard, self.balance, self.tolerance, self.max_iterations, lattice, found)
        arguments = (label, feature, batch, self.num_classes, self.lam, *settings)
        out = prefix_errors(self, bilateral_label_propagation, *arguments)
        self.report = found[0]
        return out

    def extra_repr(self) -> str:
        return f"{self.num_classes}, {super().extra_repr()}{', hard=True' if self.hard else ''}"
