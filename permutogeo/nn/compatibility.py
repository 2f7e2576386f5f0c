"""What labels of a dense CRF do to each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo.nn._check import check_choice, check_count, fail

KINDS = ("potts", "diagonal", "full", "low_rank")


class Compatibility(Module):
    r"""The label compatibility :math:`\mu` of :class:`DenseCRF`, which takes messages
    :math:`K Q` to :math:`(K Q) \mu`: what is positive there is a penalty.

    .. list-table::

        * - ``"potts"``
          - :math:`-I`, after the softmax the same as :math:`1 - I`; learned: one factor on it
        * - ``"diagonal"``
          - a number for each label, from :math:`-1`
        * - ``"full"``
          - a matrix, from :math:`-I`
        * - ``"low_rank"``
          - :math:`-I + A B^{\top}` with :math:`A, B` of ``rank`` columns, from :math:`A = 0`

    Args:
        num_classes: Number of labels :math:`L`.
        kind: One of the above, or the values themselves: a number :math:`w` for :math:`-w I`, a
            vector for a diagonal, a matrix.
        learn: Learn it from there.
        rank: Columns of the factors of ``"low_rank"``.

    Example:

        >>> Compatibility(3, "potts").matrix()
        tensor([[-1., -0., -0.],
                [-0., -1., -0.],
                [-0., -0., -1.]])
    """

    value: Tensor
    other: Tensor

    def __init__(
        self,
        num_classes: int,
        kind: str | float | Tensor = "potts",
        learn: bool = False,
        rank: int = 4,
    ):
        super().__init__()
        check_count(self, "num_classes", num_classes)
        check_count(self, "rank", rank)
        self.num_classes = num_classes
        self.learn = learn
        self.kind, start = self._read(kind, rank)
        self._start = [value.detach().clone() for value in start]
        for name, value in zip(("value", "other"), self._start, strict=False):
            if learn:
                self.register_parameter(name, Parameter(torch.empty_like(value)))
            else:
                self.register_buffer(name, torch.empty_like(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            for name, value in zip(("value", "other"), self._start, strict=False):
                getattr(self, name).copy_(value)

    def forward(self, message: Tensor) -> Tensor:
        """Messages ``[n, L]`` to what they take from the logits, ``[n, L]``."""
        value = self.value.to(message.dtype)
        if self.kind in ("potts", "diagonal"):
            return message * value
        if self.kind == "full":
            return message @ value
        return message @ value @ self.other.to(message.dtype).t() - message

    def attraction(self, message: Tensor) -> Tensor:
        """Messages ``[n, L]`` to what they add to the logits, minus :meth:`forward`."""
        return message if self.is_identity else -self(message)

    @property
    def is_identity(self) -> bool:
        """Whether messages are added to the logits as they are."""
        return self.kind == "potts" and not self.learn and float(self.value) == -1

    def matrix(self) -> Tensor:
        """The compatibility as a matrix, ``[L, L]``."""
        return self(torch.eye(self.num_classes, dtype=self.value.dtype, device=self.value.device))

    def extra_repr(self) -> str:
        return f"{self.num_classes}, {self.kind!r}" + ", learn=True" * self.learn

    def _read(self, kind: Any, rank: int) -> tuple[str, list[Tensor]]:
        """The kind and the values it starts from."""
        if isinstance(kind, str):
            check_choice(self, "kind", kind, KINDS)
            return kind, self._initial(kind, rank)
        value = torch.as_tensor(kind)
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        if not bool(value.isfinite().all()):
            fail(self, f"Expected finite compatibilities (got {kind})")
        classes = self.num_classes
        if value.dim() == 0:
            return "potts", [-value]
        if value.shape == (classes,):
            return "diagonal", [value]
        if value.shape == (classes, classes):
            return "full", [value]
        fail(
            self,
            f"Expected a compatibility of shape [], [{classes}] or [{classes}, {classes}] for "
            f"{classes} labels (got {list(value.shape)})",
        )

    def _initial(self, kind: str, rank: int) -> list[Tensor]:
        classes = self.num_classes
        if kind == "potts":
            return [-torch.ones(())]
        if kind == "diagonal":
            return [-torch.ones(classes)]
        if kind == "full":
            return [-torch.eye(classes)]
        return [torch.zeros(classes, rank), torch.randn(classes, rank) / rank**0.5]
