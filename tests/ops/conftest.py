"""A lattice beside its oracle, and the checks that every operator has to pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from permutogeo import Lattice, ops
from permutogeo.ops import marks
from permutogeo.testing.reference import ReferenceLattice

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}


@pytest.fixture(params=[1, 2, 3, 5, 8], ids=lambda dim: f"{dim}d")
def dim(request) -> int:
    return request.param


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request) -> torch.dtype:
    return request.param


@pytest.fixture(params=[1, 3, 4, 16, 21, 37], ids=lambda channels: f"{channels}ch")
def channels(request) -> int:
    """So that blocks of 16, 4 and 1 occur alone and together (kernels/rows.py)."""
    return request.param


@pytest.fixture
def hashed(monkeypatch) -> None:
    """Lattices are built with a hash table, whatever the size of their box."""
    monkeypatch.setattr(marks, "suit", lambda box, corners: False)


@dataclass(frozen=True)
class Case:
    """A lattice and the reference's, whose vertices and corners have another order."""

    lattice: Lattice
    reference: ReferenceLattice
    to_reference: np.ndarray  # [M], the reference's vertex for each vertex
    corner: np.ndarray  # [N, d + 1], the reference's corner for each corner

    @classmethod
    def of(cls, feature: Tensor, batch: Tensor | None = None) -> Case:
        lattice = Lattice.build(feature, batch)
        reference = ReferenceLattice(feature.double().numpy(), batch)
        key = lattice.key.long().numpy()
        rows = np.concatenate([key, -key.sum(1, keepdims=True)], 1).tolist()
        entries = zip(lattice.vertex_batch.tolist(), map(tuple, rows), strict=True)
        to_reference = np.array([reference.index[entry] for entry in entries], np.int64)
        assert sorted(to_reference) == list(range(reference.num_vertices))
        corner = key[lattice.vertex.long().numpy()][:, :, 0] % (lattice.dim + 1)
        return cls(lattice, reference, to_reference, corner)

    @property
    def incidence(self) -> tuple[Tensor, Tensor]:
        """Weight and vertex, as the operators take them."""
        return self.lattice.weight, self.lattice.vertex

    @property
    def plan(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.lattice.incidence.splat_plan(sort=True)

    def stencil(self, *args: Any) -> tuple[Tensor, Tensor]:
        """Neighbors and opposite taps for ``radius, dilation, kind``."""
        radius, _, kind = args
        opposite = ops.opposite(self.lattice.code, self.lattice.dim, radius, kind)
        return self.lattice.neighbors(*args), opposite

    def in_reference(self, values: Tensor) -> np.ndarray:
        """Values at vertices in the reference's order."""
        out = np.empty(values.shape)
        out[self.to_reference] = values.double().numpy()
        return out

    def from_reference(self, values: np.ndarray) -> np.ndarray:
        return values[self.to_reference]


@cache
def _random_case(dim: int, dtype: torch.dtype, num_points: int, spread: float) -> Case:
    generator = torch.Generator().manual_seed(dim)
    feature = spread * torch.randn(num_points, dim, generator=generator, dtype=torch.float64)
    batch = torch.randint(0, 2, (num_points,), generator=generator)
    if num_points >= 1000:  # sorted by graph, as PyG's batches are: only then private copies serve
        batch = batch.sort().values
    return Case.of(feature.to(dtype), batch)


@pytest.fixture
def case() -> Callable[..., Case]:
    """``case(dim, dtype)``: two graphs of random points, made once."""

    def make(dim, dtype=torch.float64, num_points=40, spread=None) -> Case:
        return _random_case(dim, dtype, num_points, spread or (1.5 if dim < 5 else 0.6))

    return make


@pytest.fixture
def case_of() -> Callable[..., Case]:
    """``case_of(feature, batch)``: a lattice over given points; fails where vertices differ."""
    return Case.of


@pytest.fixture
def check() -> type[Checks]:
    return Checks


class Checks:
    """Checks that every operator passes."""

    @staticmethod
    def close(actual: Tensor, expected: np.ndarray, tolerance: float | None = None) -> None:
        tolerance = tolerance or TOLERANCE[actual.dtype]
        np.testing.assert_allclose(actual.double(), expected, rtol=tolerance, atol=tolerance)

    @staticmethod
    def adjoint(forward: Callable, x: Tensor, backward: Callable, y: Tensor) -> None:
        """``<A x, y> == <x, A^T y>``, and autograd's transpose is the same."""
        x = x.clone().requires_grad_()
        out = forward(x)
        assert_close((out * y).sum(), (x * backward(y)).sum())
        (grad,) = torch.autograd.grad(out, x, y)
        assert_close(grad, backward(y))

    @staticmethod
    def gradients(function: Callable, *inputs: Tensor) -> None:
        inputs = tuple(x.clone().requires_grad_() for x in inputs)
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)

    @staticmethod
    def registered(op: Any, *argument_sets: tuple) -> None:
        for args in argument_sets:
            torch.library.opcheck(op, args)

    @staticmethod
    def compiles(function: Callable, *inputs: Tensor, backend: str = "aot_eager") -> None:
        """The compiled function and its gradients are those of the function."""
        if backend == "inductor" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
            pytest.skip("inductor needs a C++ compiler")
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend=backend)
        results = []
        for run in (function, compiled):
            leaves = [x.clone().requires_grad_() for x in inputs]
            out = run(*leaves)
            grad = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
            results.append((out, torch.autograd.grad(out, leaves, grad)))
        assert_close(results[1], results[0])

    @staticmethod
    def layouts(op: Any, *args: Any) -> None:
        """Strided, transposed and expanded inputs give what contiguous ones give, to the bit."""
        for place, tensor in enumerate(args):
            if not isinstance(tensor, Tensor) or tensor.numel() == 0:
                continue
            for variant in _layouts(tensor):
                same = op(*args[:place], variant.contiguous(), *args[place + 1 :])
                assert_close(op(*args[:place], variant, *args[place + 1 :]), same, rtol=0, atol=0)

    @staticmethod
    def unchanged(op: Any, *args: Any) -> None:
        """The operator writes none of its inputs, and returns none of their memory."""
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        before = [tensor.clone() for tensor in tensors]
        out = op(*args)
        assert_close(tensors, before, rtol=0, atol=0)
        memory = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
        for tensor in out if isinstance(out, tuple) else (out,):
            assert tensor.untyped_storage().data_ptr() not in memory


def _layouts(tensor: Tensor) -> list[Tensor]:
    variants = [torch.stack([tensor, torch.zeros_like(tensor)], -1)[..., 0]]
    if tensor.dim() > 1:
        variants.append(tensor.mT.contiguous().mT)
        if tensor.is_floating_point():
            variants.append(tensor[:1].expand_as(tensor))
    return variants
