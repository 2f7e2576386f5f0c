"""Label compatibility of a dense CRF."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo.checks import check_choice, check_integer, fail

KINDS = ("potts", "diagonal", "full", "low_rank")


class Compatibility(Module):
    r"""The label compatibility :math:`\mu` of :class:`DenseCRF`, which maps messages :math:`K Q` to
    the energies :math:`(K Q) \mu`.

    .. list-table::

        * - ``"potts"``
          - :math:`-I`, equivalent to :math:`1 - I` after the softmax; one learnable factor
        * - ``"diagonal"``
          - one number for each label, initially :math:`-1`
        * - ``"full"``
          - a matrix, initially :math:`-I`
        * - ``"low_rank"``
          - :math:`-I + A B^{\top}` with :math:`A, B` of ``rank`` columns, initially :math:`A = 0`

    Args:
        num_classes: Number of labels :math:`L`.
        kind: One of the above, or values: a number :math:`w` for :math:`-w I`, a vector for a
            diagonal, or a matrix.
        learn: If ``True``, the values are learned.
        rank: Number of columns of the factors of ``"low_rank"``.

    Shapes:
        - message: :math:`(N, L)`
        - output: :math:`(N, L)`

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
        check_integer(self, "num_classes", num_classes)
        check_integer(self, "rank", rank)
        self.num_classes = num_classes
        self.learn = learn
        self.kind, initial = self._parse(kind, rank)
        self._initial = [value.detach().clone() for value in initial]
        # On the device of a given tensor, else on the default device, which may be meta.
        device = kind.device if isinstance(kind, Tensor) else None
        for name, value in zip(("value", "other"), self._initial, strict=False):
            empty = torch.empty(value.shape, dtype=value.dtype, device=device)
            if learn:
                self.register_parameter(name, Parameter(empty))
            else:
                self.register_buffer(name, empty)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        with torch.no_grad():
            for name, value in zip(("value", "other"), self._initial, strict=False):
                getattr(self, name).copy_(value)

    def forward(self, message: Tensor) -> Tensor:
        """Map messages to energies.

        Args:
            message: Filtered marginals.
        """
        value = self.value.to(message.dtype)
        if self.kind in ("potts", "diagonal"):
            return message * value
        if self.kind == "full":
            return message @ value
        return message @ value @ self.other.to(message.dtype).t() - message

    def attraction(self, message: Tensor) -> Tensor:
        """Return minus :meth:`forward`, which is added to the logits."""
        return message if self.is_identity else -self(message)

    @property
    def is_identity(self) -> bool:
        """Whether :meth:`attraction` is known to be the identity.

        ``False`` in compiled programs, which cannot depend on the value, and on a GPU, where
        reading it would stop the stream.
        """
        if torch.compiler.is_compiling() or self.kind != "potts" or self.learn:
            return False
        return self.value.device.type == "cpu" and float(self.value) == -1

    def scale(self) -> float | None:
        """Return :math:`s` if :meth:`attraction` is :math:`s` times the message, up to a number
        that all labels of a point share and the softmax removes; ``None`` if not."""
        value = self.value.detach()
        if self.kind == "potts":
            return -float(value)
        if self.kind != "full":
            return None
        same, other = value[0, 0], value[0, -1]
        eye = torch.eye(len(value), dtype=torch.bool, device=value.device)
        return float(other - same) if torch.equal(value, torch.where(eye, same, other)) else None

    def matrix(self) -> Tensor:
        """The compatibility as a matrix, ``[L, L]``."""
        return self(torch.eye(self.num_classes, dtype=self.value.dtype, device=self.value.device))

    def extra_repr(self) -> str:
        return f"{self.num_classes}, {self.kind!r}" + ", learn=True" * self.learn

    def _parse(self, kind: Any, rank: int) -> tuple[str, list[Tensor]]:
        """Return the kind and the initial values."""
        if isinstance(kind, str):
            check_choice(self, "kind", kind, KINDS)
            return kind, self._default(kind, rank)
        value = kind if isinstance(kind, Tensor) else torch.as_tensor(kind, device="cpu")
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        if not bool(value.isfinite().all()):
            fail(self, f"Expected finite compatibilities (got {kind})")
        classes = self.num_classes
        if value.dim() == 0:
            return "potts", [-value.view(1)]
        if value.shape == (classes,):
            return "diagonal", [value]
        if value.shape == (classes, classes):
            return "full", [value]
        fail(
            self,
            f"Expected a compatibility of shape [], [{classes}] or [{classes}, {classes}] for "
            f"{classes} labels (got {list(value.shape)})",
        )

    def _default(self, kind: str, rank: int) -> list[Tensor]:
        """Return the initial values of a named kind, on the CPU even if the module is on meta."""
        classes = self.num_classes
        with torch.device("cpu"):
            if kind == "potts":
                return [-torch.ones(1)]  # of shape [1], since FSDP2 does not shard scalars
            if kind == "diagonal":
                return [-torch.ones(classes)]
            if kind == "full":
                return [-torch.eye(classes)]
            return [torch.zeros(classes, rank), torch.randn(classes, rank) / rank**0.5]

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        expand_scalar(state_dict, f"{prefix}value")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def expand_scalar(state_dict: dict, name: str) -> None:
    """Give an entry of shape ``[]`` the shape ``[1]``, as in state dicts of earlier versions."""
    if isinstance(state_dict.get(name), Tensor) and state_dict[name].dim() == 0:
        state_dict[name] = state_dict[name].view(1)
