"""The bilateral solver and label propagation as functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import (
    check_confidence,
    check_integer,
    check_matrix,
    check_not_vmapped,
    check_scalar,
)
from permutogeo.functional import fill_unreached
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.bilateral_system import solve_at_points
from permutogeo.lattice.conjugate_gradient import SolveReport
from permutogeo.lattice.points import Pair, resolve_lattice
from permutogeo.lattice.precision import working_dtype

__all__ = ["SolveReport", "bilateral_label_propagation", "bilateral_solve"]

# More labels than this are mistakes: no tensor could hold the result.
_MOST_CLASSES = 2**20


def bilateral_solve(
    target: Tensor,
    confidence: Tensor | None,
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None = None,
    lam: float | Tensor = 1.0,
    hard: Tensor | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 500,
    lattice: Lattice | tuple[Lattice, Incidence] | None = None,
    report: list[SolveReport] | None = None,
) -> Tensor:
    r"""Smooth values along features and keep them close to targets, each to its confidence, by the
    fast bilateral solver. The functional form of :class:`permutogeo.nn.BilateralSolver`, which has
    the equations.

    Differentiable in ``target``, ``confidence``, ``lam`` and the features, to any order, by the
    implicit function theorem: the backward pass solves the system once more.

    Args:
        target: Values at the input points; ignored, and may be NaN, where the confidence is 0.
        confidence: Weight of each target, 0 for unknown ones; ``None`` for ones. One of each graph
            must be positive.
        feature: Coordinates of the points, divided by the bandwidths; a pair for input and output
            points; ``None`` if ``lattice`` is given.
        batch: Graph of each point; graphs do not mix.
        lam: Smoothness :math:`\lambda > 0`.
        hard: Points that keep their targets exactly, whatever their confidence. Vertices around
            them are held at the mean of these targets, the limit of infinite confidence.
        tolerance: Relative residual at which conjugate gradients stop.
        max_iterations: Most iterations. A ``RuntimeWarning`` with the residual if not converged.
        lattice: ``Lattice.build(feature, batch)``, or the result of ``Lattice.build_bipartite`` for
            a pair.
        report: A list to which the convergence is appended.

    Returns:
        The solution. Points that no target is connected to get a Gaussian mean of the targets, of
        the smallest bandwidth (a power of two) that reaches one.

    Shapes:
        - target: :math:`(N, C)`
        - confidence: :math:`(N)` or :math:`(N, C)`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - hard: :math:`(N)` bool
        - output: :math:`(N, C)`, or :math:`(N', C)`

    Example:

        >>> feature = torch.rand(500, 2) * 5
        >>> known = (torch.rand(500) < 0.1).float()
        >>> report = []
        >>> bilateral_solve(feature[:, :1], known, feature, report=report).shape
        torch.Size([500, 1])
        >>> report[0].converged
        True
    """
    check_scalar(None, "tolerance", tolerance, below=1.0)
    check_integer(None, "max_iterations", max_iterations)
    lam = check_scalar(None, "lam", lam)
    check_not_vmapped(None, target)
    lattice, at = resolve_lattice(feature, batch, lattice)
    check_matrix(None, "target", target, device=lattice.device, rows=lattice.num_points)
    dtype = working_dtype(target)
    confidence, known = check_confidence(target, confidence, hard, lattice.batch)
    wide = torch.where(known, target, 0.0).to(dtype)
    out, reached, found = solve_at_points(
        lattice, at, wide, confidence.to(dtype), torch.as_tensor(lam, dtype=dtype,
        device=wide.device), hard, tolerance, max_iterations,
    )  # fmt: skip
    if report is not None:
        report.append(found)
    if not bool(reached.all()):
        out = _fill_unconnected(out, reached, wide, known.any(1), lattice, at)
    if hard is not None and at is None:
        out = torch.where(hard[:, None], wide, out)
    return out.to(target.dtype)


def bilateral_label_propagation(
    label: Tensor,
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None = None,
    num_classes: int | None = None,
    lam: float | Tensor = 1.0,
    hard: bool = False,
    balance: float = 0.25,
    tolerance: float = 1e-3,
    max_iterations: int = 500,
    lattice: Lattice | tuple[Lattice, Incidence] | None = None,
    report: list[SolveReport] | None = None,
) -> Tensor:
    """Propagate sparse labels, such as scribbles or clicks, to all points: the bilateral solver
    over one-hot labels. The functional form of
    :class:`permutogeo.nn.BilateralLabelPropagation`.

    Args:
        label: Label of each input point, -1 for none. Each graph needs at least one label.
        num_classes: Number of labels :math:`L`; by default the largest label plus 1.
        hard: Whether labels are kept exactly, or may be overruled by those around them.
        balance: Far from labels, the solution tends to their frequencies, which favors common
            labels. It is divided by the frequencies in the graph to this power, from 0 (the plain
            solution) to 1, as in the class mass normalization of `Zhu et al.
            <https://dl.acm.org/doi/10.5555/3041838.3041953>`_.
        feature, batch, lam, tolerance, max_iterations, lattice, report: As in
            :func:`bilateral_solve`.

    Returns:
        The probability of each label at each point: not negative, with a sum of 1.

    Shapes:
        - label: :math:`(N)` int64
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - output: :math:`(N, L)`, or :math:`(N', L)`

    Example:

        >>> feature = torch.cat([torch.rand(100, 2), torch.rand(100, 2) + 3])
        >>> label = torch.full((200,), -1)
        >>> label[0], label[150] = 0, 1
        >>> bilateral_label_propagation(label, feature).argmax(1).bincount()
        tensor([100, 100])
    """
    lattice, at = resolve_lattice(feature, batch, lattice)
    if not 0 <= balance <= 1:
        raise ValueError(f"Expected 'balance' from 0 to 1 (got {balance})")
    num_classes = _check_labels(label, lattice.num_points, lattice.device, num_classes)
    known = label >= 0
    target = lattice.weight.new_zeros(len(label), num_classes)
    target = target.scatter(1, label.clamp_min(0)[:, None], 1.0)
    pair = lattice if at is None else (lattice, at)
    out = bilateral_solve(
        target, known.to(target.dtype), None, None, lam, known if hard else None, tolerance,
        max_iterations, pair, report,
    )  # fmt: skip
    # Rounding and the tolerance leave sums near 1.
    out = out.clamp_min(0)
    if balance:
        out = out / _label_frequency(label, target, lattice, at).clamp_min(1e-12) ** balance
    return out / out.sum(1, keepdim=True).clamp_min(torch.finfo(out.dtype).tiny)


def _label_frequency(
    label: Tensor, one_hot: Tensor, lattice: Lattice, at: Incidence | None
) -> Tensor:
    """Return the frequency of each label among the known ones of the graph of each output point,
    ``[N', L]``, or ``[1, L]`` for one graph."""
    known = one_hot * (label >= 0)[:, None]
    batch = lattice.batch
    target = batch if at is None or lattice.others is None else lattice.others[1]
    if batch is None or target is None:
        count = known.sum(0, keepdim=True)
        return count / count.sum()
    graphs = int(torch.stack([batch.max(), target.max()]).max()) + 1
    count = known.new_zeros(graphs, known.shape[1]).index_add(0, batch, known)
    return (count / count.sum(1, keepdim=True).clamp_min(1))[target]


def _fill_unconnected(
    out: Tensor,
    reached: Tensor,
    target: Tensor,
    known: Tensor,
    lattice: Lattice,
    at: Incidence | None,
) -> Tensor:
    """Fill the solution at points of lattice components without a target."""
    feature, batch = lattice.feature, lattice.batch
    others = (feature, batch) if at is None else lattice.others
    if others is None or (at is not None and not lattice.is_output(at)):
        return out  # features of points that were located later are not known
    rows = known.nonzero()[:, 0]
    batches = None if batch is None or others[1] is None else (batch[rows], others[1])
    return fill_unreached(out, reached, target[rows], (feature[rows], others[0]), batches)


def _check_labels(label: Any, count: int, device: torch.device, num_classes: int | None) -> int:
    """Raise unless ``label`` holds a label of at least -1 for each point, and one that is known.

    Returns:
        The number of labels.
    """
    if not isinstance(label, Tensor) or label.dtype != torch.int64:
        kind = label.dtype if isinstance(label, Tensor) else type(label).__name__
        raise TypeError(f"Expected 'label' to be an int64 tensor (got {kind})")
    if label.shape != (count,) or label.device != device:
        raise ValueError(
            f"Expected 'label' of shape [{count}] on {device} "
            f"(got {list(label.shape)} on {label.device})"
        )
    if num_classes is not None:
        check_integer(None, "num_classes", num_classes)
    least, most = (int(bound) for bound in label.aminmax()) if count else (-1, -1)
    limit = _MOST_CLASSES if num_classes is None else num_classes
    if least < -1 or most >= limit:
        row = int(((label < -1) | (label >= limit)).nonzero()[0])
        raise ValueError(
            f"Expected 'label' from 0 to {limit - 1}, or -1 for none "
            f"(got {int(label[row])} in row {row})"
        )
    if count and most < 0:
        raise ValueError("Expected at least one label (got -1 everywhere)")
    return max(most + 1, 1) if num_classes is None else num_classes
