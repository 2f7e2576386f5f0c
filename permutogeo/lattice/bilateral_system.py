"""The linear system of the bilateral solver, on the vertices of a lattice."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from permutogeo.checks import check_not_vmapped
from permutogeo.lattice.conjugate_gradient import GraphSums, SolveReport, conjugate_gradient
from permutogeo.lattice.incidence import Incidence
from permutogeo.lattice.lattice import Lattice

# Steps of the bistochastic normalization; the error falls by about a half in each.
_NORMALIZATION_STEPS = 10
# Mass of vertices that points touch with weight 0: they follow their neighbors.
_LEAST_MASS = 1e-6
# Steps from the seeds after which all components are found instead: paths may be long.
_MOST_STEPS = 100


@dataclass(frozen=True)
class BilateralSystem:
    r"""The matrix :math:`A = \lambda (D - N B N) + \mathrm{diag}(c)` over the vertices.

    :math:`B` is the symmetric part of the lattice's blur and :math:`N` makes :math:`N B N`
    bistochastic: its row sums :math:`D` are the masses of the vertices.

    Args:
        lattice: The lattice.
        scale: The diagonal of :math:`N`, ``[M, 1]``.
        degree: The diagonal of :math:`D`, ``[M, 1]``.
        confidence: Confidence splatted to the vertices, ``[M, 1]`` or ``[M, C]``.
        lam: The smoothness, a scalar.
        free: Vertices that are not held, ``[M, 1]`` bool; all if ``None``.
        tolerance: Relative residual at which to stop.
        max_iterations: Most iterations.
    """

    lattice: Lattice
    scale: Tensor
    degree: Tensor
    confidence: Tensor
    lam: Tensor
    free: Tensor | None
    tolerance: float
    max_iterations: int

    def apply(self, y: Tensor) -> Tensor:
        """Multiply values at vertices ``[M, C]`` by the matrix."""
        smooth = self.scale * symmetric_blur(self.lattice, self.scale * y)
        return self.lam * (self.degree * y - smooth) + self.confidence * y

    def solve(self, right: Tensor) -> tuple[Tensor, SolveReport]:
        """Solve for values at vertices, 0 where they are held; differentiable to any order by the
        implicit function theorem.

        Args:
            right: The right-hand side, ``[M, C]``.
        """
        check_not_vmapped(None, right)
        inputs = (right, self.scale, self.degree, self.confidence, self.lam)
        with torch.no_grad():
            fixed, *others = (each.detach() for each in inputs)  # also from forward-mode tangents
            solution, report = self._replace(*others)._iterate(fixed)
        if not report.converged:
            warnings.warn(
                f"The bilateral solver {report} (tolerance {self.tolerance:g}); raise "
                "'max_iterations' or 'tolerance'",
                RuntimeWarning,
                stacklevel=2,
            )
        if _is_differentiated(inputs):
            solution = _ImplicitSolution.apply(*inputs, solution, self)
        return solution, report

    def _replace(
        self, scale: Tensor, degree: Tensor, confidence: Tensor, lam: Tensor
    ) -> BilateralSystem:
        return replace(self, scale=scale, degree=degree, confidence=confidence, lam=lam)

    def _iterate(self, right: Tensor) -> tuple[Tensor, SolveReport]:
        """Run conjugate gradients, from the mean of the targets around each vertex.

        They run on :math:`N^{-1} A N^{-1}`, whose products need no scaling; with the Jacobi
        preconditioner the iterates are those of :math:`A`.
        """
        diagonal = ((self.lam * self.degree + self.confidence) / self.scale.square()).expand_as(
            right
        )
        diagonal = diagonal.contiguous()
        inverse = diagonal - self.lam * center_tap(self.lattice)
        inverse = torch.where(inverse > 0, 1 / inverse, 1.0)
        half = -0.5 * self.lam

        def apply(values: Tensor) -> Tensor:
            out = self.lattice.blur(values)
            out.add_(self.lattice.blur(values, transpose=True)).mul_(half)
            return out.addcmul_(diagonal, values)

        sums = GraphSums(self._counts())
        known = self.confidence > 0
        weight = sums.dot(self.confidence, torch.ones_like(self.confidence))
        mean = sums.dot(right, torch.ones_like(right)) / torch.where(weight > 0, weight, 1.0)
        local = right / torch.where(known, self.confidence, 1.0)
        start = torch.where(known, local, sums.expand(mean))
        if self.free is not None:
            inverse, start = inverse * self.free, start * self.free
        solution, report = conjugate_gradient(
            apply, inverse, right / self.scale, start * self.scale, sums, self.tolerance,
            self.max_iterations,
        )  # fmt: skip
        return solution / self.scale, report

    def _counts(self) -> list[int] | None:
        """Vertices of each graph, or ``None`` for one graph."""
        if self.lattice.batch is None:
            return None
        count = self.lattice.vertex_batch.bincount()
        return count[count > 0].tolist()


def _is_differentiated(inputs: tuple[Tensor, ...]) -> bool:
    """Return whether a derivative is recorded: by autograd, ``torch.func`` or in forward mode."""
    if torch._C._are_functorch_transforms_active():
        if len(torch._C._functorch.get_interpreter_stack() or ()) > 1:
            raise RuntimeError(
                "Expected at most one transform of torch.func around the bilateral solver; for "
                "second derivatives use torch.autograd.grad with create_graph=True"
            )
        return True
    if forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any(each.requires_grad for each in inputs)


class _ImplicitSolution(torch.autograd.Function):
    """The solution ``y`` of ``A y = right``, with the derivative of the implicit equation.

    For a gradient ``g`` of ``y``, the gradient of the right-hand side is ``v`` with ``A v = g``,
    and that of the entries of ``A`` is ``- v y^T``. For tangents ``dr`` and ``dA``, the tangent of
    ``y`` is the solution of ``A dy = dr - dA y``.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return inputs[-2].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        *tensors, _, ctx.system = inputs
        ctx.save_for_backward(*tensors, output)
        ctx.save_for_forward(*tensors, output)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        _, scale, degree, confidence, lam, y = ctx.saved_tensors
        system = ctx.system._replace(scale, degree, confidence, lam)
        dr, dscale, ddegree, dconfidence, dlam = (
            torch.zeros_like(x) if dx is None else dx
            for dx, x in zip(tangents[:5], (y, scale, degree, confidence, lam), strict=True)
        )
        blurred = symmetric_blur(system.lattice, scale * y)
        change = ddegree * y - dscale * blurred - scale * symmetric_blur(system.lattice, dscale * y)
        change = lam * change + dlam * (degree * y - scale * blurred) + dconfidence * y
        right = dr - change
        return system.solve(right if system.free is None else right * system.free)[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        _, scale, degree, confidence, lam, y = ctx.saved_tensors
        system = ctx.system._replace(scale, degree, confidence, lam)
        grad = grads[0] if system.free is None else grads[0] * system.free
        v, _ = system.solve(grad)
        around_v, around_y = (symmetric_blur(system.lattice, scale * each) for each in (v, y))
        product = v * y
        grad_confidence = -product if confidence.shape[1] > 1 else -product.sum(1, keepdim=True)
        grad_degree = -lam * product.sum(1, keepdim=True)
        grad_scale = lam * (v * around_y + y * around_v).sum(1, keepdim=True)
        grad_lam = -(v * (degree * y - scale * around_y)).sum()
        return v, grad_scale, grad_degree, grad_confidence, grad_lam, None, None


def symmetric_blur(lattice: Lattice, values: Tensor) -> Tensor:
    """Apply the symmetric part of the blur to values at vertices.

    Axis by axis, the blur passes through occupied vertices only, which makes it depend on the order
    of the axes.
    """
    return 0.5 * (lattice.blur(values) + lattice.blur(values, transpose=True))


def center_tap(lattice: Lattice) -> float:
    """Return the least diagonal entry of the blur, that of a vertex without neighbors."""
    corners = lattice.dim + 1
    center = lattice.taps[len(lattice.taps) // 2]
    return center**corners / sum(tap**corners for tap in lattice.taps)


def bistochastic_scale(
    lattice: Lattice, at: Incidence | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    r"""Return the diagonals of :math:`N` and :math:`D = \mathrm{diag}(N B N 1)`, ``[M, 1]``.

    The iteration :math:`n \leftarrow \sqrt{n m / B n}` of Barron and Poole, where :math:`m` is the
    number of points splatted to each vertex. The row sums are those of the final scales, so that
    the smoothness term of a constant is 0 to rounding.

    Args:
        at: Output points, which count as points too.
    """

    def compute() -> tuple[Tensor, Tensor]:
        mass = lattice.splat(lattice.weight.new_ones(lattice.num_points, 1, dtype=dtype))
        if at is not None:
            mass = mass + lattice.splat(mass.new_ones(at.num_points, 1), at)
        mass = mass.clamp_min(_LEAST_MASS)
        n = torch.ones_like(mass)
        for _ in range(_NORMALIZATION_STEPS):
            n = (n * mass / symmetric_blur(lattice, n)).sqrt()
        return n, n * symmetric_blur(lattice, n)

    if at is not None and not lattice.is_output(at):
        return compute()
    return lattice.cached_constant(("bistochastic", at is not None, dtype), compute)


def reached_vertices(lattice: Lattice, seeds: Tensor) -> Tensor:
    """Return the vertices that are connected to a seed by steps along axes, ``[M]`` bool.

    Args:
        seeds: ``[M]`` bool.
    """
    neighbors = lattice.neighbors(len(lattice.taps) // 2, stencil="axis")[:, 1:]
    reached, front = seeds.clone(), seeds.nonzero()[:, 0]
    for _ in range(_MOST_STEPS):
        if len(front) == 0:
            return reached
        near = neighbors[front]
        near = near[near >= 0].long()
        new = torch.zeros_like(reached).index_fill(0, near, True) & ~reached
        reached |= new
        front = new.nonzero()[:, 0]
    label = _components(neighbors)
    return torch.zeros_like(seeds).index_fill(0, label[seeds], True)[label]


def _components(neighbors: Tensor) -> Tensor:
    """Return the least vertex of the connected component of each vertex, by hooking and pointer
    jumping: the number of steps grows with the logarithm of the longest path."""
    own = torch.arange(len(neighbors), device=neighbors.device)
    columns = [torch.where(column < 0, own, column) for column in neighbors.T]
    label = own
    while True:
        least = label
        for column in columns:
            least = torch.minimum(least, label[column])
        hooked = label.scatter_reduce(0, label, least, "amin")
        hooked = torch.minimum(hooked, least)
        hooked = hooked[hooked]
        if torch.equal(hooked, label):
            return label
        label = hooked


def solve_at_points(
    lattice: Lattice,
    at: Incidence | None,
    target: Tensor,
    confidence: Tensor,
    lam: Tensor,
    hard: Tensor | None,
    tolerance: float,
    max_iterations: int,
) -> tuple[Tensor, Tensor, SolveReport]:
    """Return the solution at the output points ``[N', C]``, which of them are connected to a point
    with a target ``[N']``, and the convergence.

    Args:
        target: ``[N, C]``, finite.
        confidence: ``[N, 1]`` or ``[N, C]``, 0 at the points of ``hard``.
        hard: Points whose vertices are held at their targets, ``[N]`` bool.
    """
    scale, degree = bistochastic_scale(lattice, at, target.dtype)
    channels = target.shape[1]
    sums = lattice.splat(torch.cat([target * confidence, confidence], 1))
    right, weight = sums[:, :channels], sums[:, channels:]
    free, held = None, None
    if hard is not None:
        with_hard = hard[:, None].to(target.dtype)
        sums = lattice.splat(torch.cat([target * with_hard, with_hard], 1))
        free = sums[:, -1:] <= 0
        held = sums[:, :-1] / torch.where(free, 1.0, sums[:, -1:])  # 0 where free
    system = BilateralSystem(lattice, scale, degree, weight, lam, free, tolerance, max_iterations)
    if free is None or held is None:
        values, report = system.solve(right)
    else:
        values, report = system.solve((right - system.apply(held)) * free)
        values = values + held
    out = lattice.slice(values, at)
    known = (confidence > 0).all(1) if hard is None else (confidence > 0).all(1) | hard
    if at is None and bool(known.all()):
        return out, known, report
    with torch.no_grad():
        seeds = (weight > 0).all(1) if free is None else (weight > 0).all(1) | ~free[:, 0]
        reached = reached_vertices(lattice, seeds).to(out.dtype)[:, None]
        return out, lattice.slice(reached, at)[:, 0] > 0.5, report
