"""The dense CRF module."""

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

from permutogeo.checks import check_choice, check_graph_ids, check_integer, fail, prefix_errors
from permutogeo.lattice import Lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.crf.arguments import (
    parse_compatibilities,
    parse_kernels,
    parse_normalizations,
    parse_points,
)
from permutogeo.nn.crf.compatibility import Compatibility
from permutogeo.nn.crf.kernels import CRFKernel, PairwiseOperator
from permutogeo.nn.crf.problem import CRFProblem
from permutogeo.nn.crf.solvers import (
    MeanField,
    Solver,
    attach_implicit_gradient,
    find_solver,
    is_fusable,
    solve_fused,
)
from permutogeo.runtime import memory, threads

T = TypeVar("T")
# The feature and the lattice of each kernel, one of which may be None.
Points = Sequence[tuple[Any, Lattice | None]]
# The lattices of up to this many points are built in parallel, one on each thread; larger ones are
# built one by one, each on all threads.
_PARALLEL_BUILD_POINTS = 1 << 18
# Graphs of at least this many points on average are solved one by one, which reuses memory that the
# allocator already holds; side by side, one on each thread, if none has more than
# `_PARALLEL_BUILD_POINTS`.
_LARGE_GRAPH_POINTS = 1 << 14
CompatibilityLike = str | float | Tensor | Compatibility


class DenseCRF(Module):
    r"""A fully connected conditional random field over points, from the `"Efficient Inference in
    Fully Connected CRFs with Gaussian Edge Potentials" <https://arxiv.org/abs/1210.5644>`_ paper,
    with the learned kernels and the loose mean field of the `"Learning Sparse High Dimensional
    Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    .. math::
        \log \mathbf{q}_i \leftarrow \mathbf{u}_i - \sum_m w_m \sum_j
        k_m(\mathbf{f}_i, \mathbf{f}_j) \, \mathbf{q}_j \mu_m

    up to normalization, where :math:`\mathbf{u}` are the unary logits, :math:`k_m` the kernels over
    features :math:`\mathbf{f}`, :math:`w_m` their weights and :math:`\mu_m` the label
    compatibilities.

    Args:
        num_classes: Number of labels :math:`L`.
        kernels: The pairwise kernels, :class:`GaussianKernel` or :class:`LearnedKernel`.
        compatibility: ``"potts"``, ``"diagonal"``, ``"full"`` or ``"low_rank"``, a number, a
            vector, a matrix or a :class:`Compatibility`; or a list with one for each kernel.
        num_steps: Number of inference steps, the maximum if ``tolerance`` is given.
        normalize: Normalization of the kernels: ``None``, ``"before"``, ``"after"`` or
            ``"symmetric"``; or a list with one for each kernel.
        loose: If ``True``, each step has its own kernels and compatibilities.
        exclude_self: If ``True``, points send no messages to themselves.
        learn_compatibility: If ``True``, compatibilities that are not modules are learned.
        solver: ``"mean_field"``, ``"frank_wolfe"``, a :class:`MeanField` or a :class:`FrankWolfe`.
        damping: Damping of ``"mean_field"``, see :class:`MeanField`.
        tolerance: Stop when no marginal changes by more than this.
        backward: ``"unroll"`` differentiates through the steps, ``"checkpoint"`` recomputes them in
            the backward pass, and ``"implicit"`` differentiates the fixed point, with memory
            independent of the number of steps (set ``tolerance`` to reach a fixed point).

    Inference without gradients takes about 400 bytes for each point at 21 labels and two kernels
    over 5 and 2 features, and the arguments 112: 10 GB for an image of 20 megapixels.

    Shapes:
        - unary: :math:`(N, L)` logits, the negative energies
        - features: one :math:`(N, d_m)` for each kernel
        - batch: :math:`(N)` int64
        - output: :math:`(N, L)`, log-marginals

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
        compatibility: CompatibilityLike | Sequence[CompatibilityLike] = "potts",
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
        check_integer(self, "num_classes", num_classes)
        check_integer(self, "num_steps", num_steps, 0)
        check_choice(self, "backward", backward, ("unroll", "checkpoint", "implicit"))
        self.num_classes = num_classes
        self.num_steps = num_steps
        self.loose = loose
        self.exclude_self = exclude_self
        self.tolerance = tolerance
        self.backward = backward
        self.solver = find_solver(self, solver, damping)
        self._check_options()
        kernels = parse_kernels(self, kernels)
        self.normalize = parse_normalizations(self, normalize, len(kernels))
        mixes = parse_compatibilities(self, compatibility, len(kernels), learn_compatibility)
        copies = max(1, num_steps) if loose else 1
        self.kernels = _per_step(kernels, copies)
        self.compatibilities = _per_step(mixes, copies)

    def _check_options(self) -> None:
        """Raise for options that exclude each other."""
        if self.tolerance is not None and not self.tolerance >= 0:
            fail(self, f"Expected 'tolerance' of at least 0, or None (got {self.tolerance})")
        if self.loose and self.tolerance is not None:
            fail(self, "Expected no 'tolerance' with loose=True, whose steps all differ")
        mean_field = isinstance(self.solver, MeanField)
        if self.backward == "implicit" and (self.loose or not mean_field):
            fail(
                self,
                "Expected mean field and loose=False with backward='implicit', so that the result "
                f"is a fixed point (got loose={self.loose}, solver={self.solver})",
            )

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
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
        """Return the log-marginals.

        Args:
            unary: Logits of each label at each point.
            features: Features of the points for each kernel; may be ``None`` where ``lattices``
                holds a lattice.
            batch: Graph of each point. Points of different graphs do not interact.
            lattices: ``Lattice.build(feature / sigma, batch)`` for each kernel.
        """
        points = self._parse_points(unary, features, batch, lattices)
        wide = unary.to(working_dtype(unary))
        ranges = self._large_graph_ranges(wide, batch) if lattices is None else []
        if len(ranges) < 2:
            return self._solve(self._build_problem(wide, points, batch)).to(unary.dtype)
        out = memory.empty(*wide.shape, dtype=unary.dtype, device=unary.device)

        def solve(first: int, last: int) -> None:
            graph = [(feature[first:last], None) for feature, _ in points]
            out[first:last] = self._solve(self._build_problem(wide[first:last], graph, None))

        jobs = [partial(solve, first, last) for first, last in ranges]
        largest = max(last - first for first, last in ranges)
        # Threads of the pool do not have the caller's autocast.
        if largest <= _PARALLEL_BUILD_POINTS and not torch.is_autocast_enabled("cpu"):
            threads.run_without_grad(jobs)
        else:
            for job in jobs:
                job()
        return out

    def problem(
        self,
        unary: Tensor,
        features: Sequence[Tensor | None],
        batch: Tensor | None = None,
        lattices: Sequence[Lattice] | None = None,
    ) -> CRFProblem:
        """Return the energy of the CRF over these points; called like the module."""
        points = self._parse_points(unary, features, batch, lattices)
        return self._build_problem(unary.to(working_dtype(unary)), points, batch)

    def steps(self, problem: CRFProblem) -> Iterator[Tensor]:
        """Yield the log-marginals before the first step and after each step.

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
        """Return the most probable label of each point, ``[N]``; called like the module."""
        with torch.no_grad():
            return self(*args, **kwargs).argmax(1)

    def _parse_points(self, unary: Any, features: Any, batch: Any, lattices: Any) -> Points:
        by_step: Any = self.kernels
        given = (features, batch, lattices)
        return parse_points(self, "unary", unary, by_step[0], *given, self.num_classes)

    def _large_graph_ranges(self, unary: Tensor, batch: Tensor | None) -> list[tuple[int, int]]:
        """Return the range of points of each graph, or ``[]`` if the batch is solved as a whole."""
        if not self._runs_plain_mean_field or unary.device.type != "cpu":
            return []
        if torch.compiler.is_compiling() or batch is None:
            return []
        if len(batch) < 2 * _LARGE_GRAPH_POINTS:
            return []
        # Lattices of single graphs are built without the batch, which would be checked there.
        prefix_errors(self, check_graph_ids, "batch", batch)
        if bool((batch[1:] < batch[:-1]).any()):
            return []
        edge = [0, *batch.unique_consecutive(return_counts=True)[1].cumsum(0).tolist()]
        graphs = len(edge) - 1
        return list(pairwise(edge)) if len(batch) >= _LARGE_GRAPH_POINTS * graphs else []

    def _build_problem(self, unary: Tensor, points: Points, batch: Tensor | None) -> CRFProblem:
        """Build the lattices and operators of all kernels."""

        def build(m: int) -> list[PairwiseOperator]:
            return self._build_operators(m, *points[m], batch, unary.dtype)

        kernels = range(len(points))
        # Threads of the pool have neither the caller's CUDA stream nor its autocast.
        cpu = unary.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        small = not torch.compiler.is_compiling() and len(unary) <= _PARALLEL_BUILD_POINTS
        # Ranks that share a lattice exchange in the same order, so on one thread.
        alone = not self._check_sharded([lattice for _, lattice in points])
        parallel = cpu and small and alone and not torch.is_grad_enabled()
        operators = _map_on_threads(build, kernels) if parallel else [build(m) for m in kernels]
        # From operators[kernel][step] to pairwise[step][kernel].
        mixes: Any = self.compatibilities
        pairwise = [
            [(by_step[step], mix) for by_step, mix in zip(operators, mixes[step], strict=True)]
            for step in range(len(mixes))
        ]
        return CRFProblem(unary, pairwise, batch)

    def _check_sharded(self, lattices: Sequence[Lattice | None]) -> bool:
        """Return whether the lattices are sharded over ranks; raise if only some of them are."""
        sharded = [lattice is not None and lattice.sharded for lattice in lattices]
        if any(sharded) and not all(sharded):
            fail(self, f"Expected 'lattices' to be all sharded, or none (got {list(lattices)})")
        if any(sharded) and self.backward == "implicit":
            fail(
                self,
                "Expected backward='unroll' or 'checkpoint' on a sharded lattice, since the "
                "implicit gradient solves one system over all points (got 'implicit')",
            )
        return any(sharded)

    def _build_operators(
        self,
        m: int,
        feature: Any,
        lattice: Lattice | None,
        batch: Tensor | None,
        dtype: torch.dtype,
    ) -> list[PairwiseOperator]:
        """Build kernel ``m`` for each step; lattices differ only if bandwidths are learned."""
        by_step: Any = self.kernels
        operators = []
        for step, kernels in enumerate(by_step):
            kernel = kernels[m]
            if step == 0:
                lattice = kernel.build_lattice(feature, batch, lattice)
            elif kernel.bandwidth.learned:
                lattice = kernel.build_lattice(feature, batch)
            operator = kernel.operator(lattice, self.normalize[m], self.exclude_self, dtype)
            operators.append(operator)
        return operators

    def _solve(self, problem: CRFProblem) -> Tensor:
        """Return the log-marginals."""
        implicit = self.backward == "implicit" and torch.is_grad_enabled()
        with torch.set_grad_enabled(torch.is_grad_enabled() and not implicit):
            if self._runs_plain_mean_field and is_fusable(problem):
                return solve_fused(problem, self.num_steps)
            logits = self._iterate(problem)
        if implicit:
            logits = attach_implicit_gradient(lambda z: self.solver.step(problem, z, 0), logits)
        return torch.log_softmax(logits, 1)

    @property
    def _runs_plain_mean_field(self) -> bool:
        """Whether a call runs a fixed number of undamped mean-field steps without autograd."""
        if not isinstance(self.solver, MeanField) or self.solver.damping:
            return False
        if self.num_steps == 0 or self.tolerance is not None or self.backward == "implicit":
            return False
        return not torch.is_grad_enabled()

    def _iterate(self, problem: CRFProblem) -> Tensor:
        """Run the solver, until the tolerance is reached if there is one."""
        logits = problem.unary
        recompute = self.backward == "checkpoint" and torch.is_grad_enabled()
        for step in range(self.num_steps):
            before = logits
            if recompute:
                logits = checkpoint(self.solver.step, problem, before, step, use_reentrant=False)
            else:
                logits = self.solver.step(problem, before, step)
            if self.tolerance is not None:
                change = problem.incidence.largest(_largest_change(logits, before))
                if change <= self.tolerance:
                    break
        return logits

    def extra_repr(self) -> str:
        return (
            f"{self.num_classes}, num_steps={self.num_steps}, normalize={self.normalize}, "
            f"loose={self.loose}, exclude_self={self.exclude_self}, solver={self.solver}"
        )


def _map_on_threads(function: Callable[[int], T], items: Sequence[int]) -> list[T]:
    """Return ``function`` of each item, computed in parallel without autograd."""
    out: dict[int, T] = {}

    def compute(item: int) -> None:
        out[item] = function(item)

    threads.run_without_grad([partial(compute, item) for item in items])
    return [out[item] for item in items]


def _per_step(modules: Sequence[Module], copies: int) -> ModuleList:
    """Return the modules, and a copy of them for each further step."""
    first = ModuleList(modules)
    return ModuleList([first, *(copy.deepcopy(first) for _ in range(copies - 1))])


@torch.no_grad()
def _largest_change(logits: Tensor, before: Tensor) -> Tensor:
    """Return the largest change of a marginal."""
    change = (logits.softmax(1) - before.softmax(1)).abs()
    return change.max() if change.numel() else logits.new_zeros(())
