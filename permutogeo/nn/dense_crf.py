"""The dense CRF over points, with Gaussian or learned kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch.utils.checkpoint import checkpoint

from permutogeo import _warp
from permutogeo.checks import working_dtype
from permutogeo.lattice import Lattice
from permutogeo.nn import _crf_check as check
from permutogeo.nn import _mean_field as mean_field
from permutogeo.nn._check import check_choice, check_count
from permutogeo.nn._crf_problem import CRFProblem
from permutogeo.nn._fixed_point import attach_gradient
from permutogeo.nn.compatibility import Compatibility
from permutogeo.nn.crf_kernel import CRFKernel, PairwiseOperator
from permutogeo.nn.crf_solver import MeanField, Solver, find_solver

T = TypeVar("T")
# Lattices over no more than these are too small to be shared well among threads: each has its own.
_FEW_POINTS = 1 << 18
# Graphs of no fewer points, on the average, are solved one after another: the memory of one serves
# the next, where that of all at once would have to be given by the system anew at each call.
_MANY_POINTS = 1 << 14
Compatible = str | float | Tensor | Compatibility


class DenseCRF(Module):
    r"""A fully connected conditional random field over points, from the `"Efficient Inference in
    Fully Connected CRFs with Gaussian Edge Potentials" <https://arxiv.org/abs/1210.5644>`_ paper,
    with the learned kernels and the loose mean field of the `"Learning Sparse High Dimensional
    Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    .. math::
        \log \mathbf{q}_i \leftarrow \mathbf{u}_i - \sum_m w_m \sum_j
        k_m(\mathbf{f}_i, \mathbf{f}_j) \, \mathbf{q}_j \mu_m

    up to normalization, where :math:`\mathbf{u}` are the unary logits, :math:`k_m` the kernels over
    features :math:`\mathbf{f}` and :math:`\mu_m` the label compatibilities.

    Args:
        num_classes: Number of labels :math:`L`.
        kernels: The pairwise kernels, :class:`GaussianKernel` or :class:`LearnedKernel`.
        compatibility: ``"potts"``, ``"diagonal"``, ``"full"`` or ``"low_rank"``, a number, a
            vector, a matrix or a :class:`Compatibility`; or a list with one for each kernel.
        num_steps: Steps of inference, the most there are if ``tolerance`` is given.
        normalize: How kernels are normalized: ``None``, ``"before"``, ``"after"`` or
            ``"symmetric"``; or a list with one for each kernel.
        loose: Give each step kernels and compatibilities of its own.
        exclude_self: Leave out what a point sends to itself.
        learn_compatibility: Learn the compatibilities that are not modules already.
        solver: ``"mean_field"``, ``"frank_wolfe"``, or a :class:`MeanField` or
            :class:`FrankWolfe` with settings of its own.
        damping: How much of the old logits mean field keeps in each step.
        tolerance: Stop once no marginal changes by more than this.
        backward: ``"unroll"`` to differentiate through the steps; ``"checkpoint"`` to compute them
            again instead of keeping what they need; ``"implicit"`` to differentiate the fixed
            point, in memory that does not grow with the steps (give a ``tolerance``).

    Shapes:
        - unary: :math:`(N, L)` logits, minus the energies
        - features: one :math:`(N, d_m)` for each kernel
        - batch: :math:`(N)` int64
        - output: :math:`(N, L)`, logarithms of the marginals

    Example:

        >>> from permutogeo.nn import GaussianKernel
        >>> crf = DenseCRF(3, [GaussianKernel(dim=2, weight=2.0)], num_steps=3)
        >>> marginals = crf(torch.randn(100, 3), [torch.rand(100, 2)]).exp()
        >>> labels = marginals.argmax(1)
    """

    def __init__(
        self,
        num_classes: int,
        kernels: Sequence[CRFKernel],
        compatibility: Compatible | Sequence[Compatible] = "potts",
        num_steps: int = 5,
        normalize: str | Sequence[str | None] | None = "symmetric",
        loose: bool = False,
        exclude_self: bool = False,
        learn_compatibility: bool = False,
        solver: str | Solver = "mean_field",
        damping: float = 0.0,
        tolerance: float | None = None,
        backward: str = "unroll",
    ):
        super().__init__()
        check_count(self, "num_classes", num_classes)
        check_count(self, "num_steps", num_steps, 0)
        check_choice(self, "backward", backward, ("unroll", "checkpoint", "implicit"))
        self.num_classes = num_classes
        self.num_steps = num_steps
        self.loose = loose
        self.exclude_self = exclude_self
        self.tolerance = tolerance
        self.backward = backward
        self.solver = find_solver(self, solver, damping)
        check.modes(self)
        kernels = check.kernels(self, kernels)
        self.normalize = check.normalizations(self, normalize, len(kernels))
        mixes = check.compatibilities(self, compatibility, len(kernels), learn_compatibility)
        copies = max(1, num_steps) if loose else 1
        self.kernels = _per_step(kernels, copies)
        self.compatibilities = _per_step(mixes, copies)

    def reset_parameters(self) -> None:
        for module in self.modules():
            if isinstance(module, CRFKernel | Compatibility):
                module.reset_parameters()

    def forward(
        self,
        unary: Tensor,
        features: Sequence[Tensor | None],
        batch: Tensor | None = None,
        lattices: Sequence[Lattice] | None = None,
    ) -> Tensor:
        """The logarithms of the marginals.

        Args:
            unary: Logits of each label at each point.
            features: The coordinates of the points for each kernel; ``None`` where ``lattices``
                holds a lattice.
            batch: Graph of each point; graphs do not mix.
            lattices: ``Lattice.build(feature / sigma, batch)`` for each kernel.
        """
        points = self._check(unary, features, batch, lattices)
        wide = unary.to(working_dtype(unary))
        graphs = self._large_graphs(wide, batch) if lattices is None else []
        if len(graphs) < 2:
            return self._solve(self._lay(wide, points, batch)).to(unary.dtype)
        out = _warp.empty(*wide.shape, dtype=unary.dtype, device=unary.device)
        for first, last in graphs:
            part = [(feature[first:last], None) for feature, _ in points]
            out[first:last] = self._solve(self._lay(wide[first:last], part, None))
        return out

    def problem(
        self,
        unary: Tensor,
        features: Sequence[Tensor | None],
        batch: Tensor | None = None,
        lattices: Sequence[Lattice] | None = None,
    ) -> CRFProblem:
        """The CRF on these points, to be asked for energies or solved step by step."""
        points = self._check(unary, features, batch, lattices)
        return self._lay(unary.to(working_dtype(unary)), points, batch)

    def _check(
        self, unary: Any, features: Any, batch: Any, lattices: Any
    ) -> list[tuple[Any, Lattice | None]]:
        """The features and the lattice for each kernel, after all checks."""
        by_step: Any = self.kernels
        given = (features, batch, lattices)
        return check.inputs(self, "unary", unary, by_step[0], *given, self.num_classes)

    def _large_graphs(self, unary: Tensor, batch: Tensor | None) -> list[tuple[int, int]]:
        """Where each graph of a batch begins and ends, if they are better solved by themselves."""
        if not self._is_plain or unary.device.type != "cpu" or torch.compiler.is_compiling():
            return []
        if batch is None or len(batch) < 2 * _MANY_POINTS or bool((batch[1:] < batch[:-1]).any()):
            return []
        edge = [0, *batch.unique_consecutive(return_counts=True)[1].cumsum(0).tolist()]
        return list(pairwise(edge)) if len(batch) >= _MANY_POINTS * (len(edge) - 1) else []

    def _lay(
        self, unary: Tensor, points: Sequence[tuple[Any, Lattice | None]], batch: Tensor | None
    ) -> CRFProblem:
        """The lattices of all kernels over checked points."""
        by_step: Any = self.kernels

        def lay(m: int) -> list[PairwiseOperator]:
            """Kernel ``m`` at each step; lattices differ only where bandwidths do."""
            feature, lattice = points[m]
            operators = []
            for step, kernels in enumerate(by_step):
                kernel = kernels[m]
                if step == 0 or kernel.bandwidth.learned:
                    lattice = kernel.lay(feature, batch, None if step else lattice)
                how = (self.normalize[m], self.exclude_self, unary.dtype)
                operators.append(kernel.operator(lattice, *how))
            return operators

        few = len(unary) <= _FEW_POINTS
        each = _side_by_side(lay, len(points)) if few else [lay(m) for m in range(len(points))]
        mixes: Any = self.compatibilities
        terms = [
            [(operators[step], mix) for operators, mix in zip(each, mixes[step], strict=True)]
            for step in range(len(mixes))
        ]
        return CRFProblem(unary, terms, batch)

    def steps(self, problem: CRFProblem) -> Iterator[Tensor]:
        """The logarithms of the marginals at the start and after each step.

        Example:

            >>> from permutogeo.nn import GaussianKernel
            >>> crf = DenseCRF(2, [GaussianKernel(dim=1)], num_steps=3)
            >>> problem = crf.problem(torch.randn(9, 2), [torch.rand(9, 1)])
            >>> energies = [problem.free_energy(logits) for logits in crf.steps(problem)]
            >>> len(energies)
            4
        """
        logits = problem.unary
        yield torch.log_softmax(logits, 1)
        for step in range(self.num_steps):
            logits = self.solver.step(problem, logits, step)
            yield torch.log_softmax(logits, 1)

    def labels(self, *args: Any, **kwargs: Any) -> Tensor:
        """The most probable label of each point, ``[N]``; called like the module."""
        with torch.no_grad():
            return self(*args, **kwargs).argmax(1)

    def _solve(self, problem: CRFProblem) -> Tensor:
        """Logarithms of the marginals."""
        implicit = self.backward == "implicit" and torch.is_grad_enabled()
        with torch.set_grad_enabled(torch.is_grad_enabled() and not implicit):
            if self._is_plain and mean_field.applies(problem):
                return mean_field.solve(problem, self.num_steps)
            logits = self._iterate(problem)
        if implicit:
            logits = attach_gradient(lambda z: self.solver.step(problem, z, 0), logits)
        return torch.log_softmax(logits, 1)

    @property
    def _is_plain(self) -> bool:
        """Whether nothing but a number of steps of mean field is asked for."""
        plain = isinstance(self.solver, MeanField) and not self.solver.damping
        wanted = self.num_steps > 0 and self.tolerance is None and self.backward != "implicit"
        return plain and wanted and not torch.is_grad_enabled()

    def _iterate(self, problem: CRFProblem) -> Tensor:
        logits = problem.unary
        again = self.backward == "checkpoint" and torch.is_grad_enabled()
        for step in range(self.num_steps):
            before = logits
            if again:
                logits = checkpoint(self.solver.step, problem, before, step, use_reentrant=False)
            else:
                logits = self.solver.step(problem, before, step)
            if self.tolerance is not None and _change(logits, before) <= self.tolerance:
                break
        return logits

    def extra_repr(self) -> str:
        return (
            f"{self.num_classes}, num_steps={self.num_steps}, normalize={self.normalize}, "
            f"loose={self.loose}, exclude_self={self.exclude_self}, solver={self.solver}"
        )


def _side_by_side(work: Callable[[int], T], count: int) -> list[T]:
    """``work`` on each number, on threads of their own unless a gradient is to be recorded."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return [work(m) for m in range(count)]
    out: dict[int, T] = {}
    _warp.run([partial(lambda m: out.update({m: work(m)}), m) for m in range(count)])
    return [out[m] for m in range(count)]


def _per_step(modules: Sequence[Module], copies: int) -> ModuleList:
    """The modules, and for each further step a copy of them."""
    first = ModuleList(modules)
    return ModuleList([first, *(copy.deepcopy(first) for _ in range(copies - 1))])


@torch.no_grad()
def _change(logits: Tensor, before: Tensor) -> float:
    """The largest change of a marginal."""
    change = (logits.softmax(1) - before.softmax(1)).abs()
    return float(change.max()) if change.numel() else 0.0
