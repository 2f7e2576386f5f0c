"""Multi-resolution encoding of positions on permutohedral lattices."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo import ops
from permutogeo.checks import (
    check_finite,
    check_integer,
    check_not_vmapped,
    check_points,
    check_scalar,
    fail,
)
from permutogeo.lattice import Incidence, Lattice
from permutogeo.ops.hash_locate import aligned_frame, dense_widths

# Variance of the taps that scale the lattice; any would do, since resolutions are in vertices.
_VARIANCE = 0.5
# Multiples of it, modulo 1, shift the levels, so that their vertices do not coincide.
_GOLDEN = (math.sqrt(5) - 1) / 2
# Initial values, as in Instant NGP.
_SPREAD = 1e-4
_MOST_ROWS = 2**31 - 1
# Without a table size, levels larger than this are refused: they would take gigabytes.
_MOST_EXACT = 2**26


class PermutohedralEncoding(Module):
    r"""The multi-resolution encoding from the `"PermutoSDF: Fast Multi-View Reconstruction with
    Implicit Surfaces using Permutohedral Lattices" <https://arxiv.org/abs/2211.12562>`_ paper, the
    hash encoding of `"Instant Neural Graphics Primitives with a Multiresolution Hash Encoding"
    <https://arxiv.org/abs/2201.05989>`_ on simplices.

    .. math::
        \mathbf{x}_i = \big\Vert_{l = 0}^{L - 1} \sum_{k = 0}^{d} w_{lik} \,
        \mathbf{T}_l[\mathrm{vertex}_{lik}]

    where :math:`w` are the barycentric weights of position :math:`i` in its simplex on level
    :math:`l` and :math:`\mathbf{T}_l` are learned values at the vertices. A simplex has
    :math:`d + 1` corners where a cell of a grid has :math:`2^d`. Differentiable in the values and
    in the positions, to second order.

    Each vertex has a row of its own (no collisions), unless ``table_size`` bounds the rows of a
    level: vertices of larger levels then share rows by a hash.

    Args:
        dim: Dimension :math:`d` of the positions, any.
        num_levels: Number of levels :math:`L`.
        features_per_level: Learned values per vertex :math:`F`.
        base_resolution: Resolution of the coarsest level: :math:`r` means as many vertices as a
            grid of :math:`r^d` cells over the unit cube.
        growth_factor: Ratio of the resolutions of consecutive levels.
        table_size: Most rows of a level; ``None`` for exact tables.
        points: Positions :math:`(N, d)` around which values are needed: exact tables hold only the
            vertices of their simplices, and other vertices read 0. By default all of the unit cube.

    Shapes:
        - position: :math:`(N, d)`, in the unit cube; others share rows with positions inside
        - output: :math:`(N, L F)`, from coarse to fine

    Example:

        >>> encode = PermutohedralEncoding(dim=3, num_levels=4, table_size=2**12)
        >>> encode(torch.rand(100, 3)).shape
        torch.Size([100, 8])
    """

    # One row of these for each level, or the vertices of a sparse encoding.
    width: Tensor
    table: Tensor
    code: Tensor | None
    box: Tensor | None
    rotation: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        dim: int,
        num_levels: int = 16,
        features_per_level: int = 2,
        base_resolution: float = 16,
        growth_factor: float = 1.5,
        table_size: int | None = None,
        points: Tensor | None = None,
    ):
        super().__init__()
        for name, value in (("dim", dim), ("num_levels", num_levels)):
            check_integer(self, name, value)
        check_integer(self, "features_per_level", features_per_level)
        check_scalar(self, "base_resolution", base_resolution)
        check_scalar(self, "growth_factor", growth_factor)
        if table_size is not None and not (isinstance(table_size, int) and table_size >= 1):
            fail(self, f"Expected 'table_size' to be a positive integer (got {table_size!r})")
        if table_size is not None and points is not None:
            fail(self, "Expected 'table_size' or 'points', not both: with points, tables are exact")
        self.dim, self.num_levels, self.features_per_level = dim, num_levels, features_per_level
        self.base_resolution, self.growth_factor = base_resolution, growth_factor
        self.table_size = table_size
        for name, constant in self._constants(tables=points is None).items():
            self.register_buffer(name, constant, persistent=name in ("scale", "shift"))
        rows = self._find_vertices(points)
        self.to(torch.empty(0).device)  # the default device, which may be meta
        self.values = Parameter(torch.empty(rows, features_per_level))
        torch.nn.init.uniform_(self.values, -_SPREAD, _SPREAD)

    @property
    def out_channels(self) -> int:
        """Channels of the output, :math:`L F`."""
        return self.num_levels * self.features_per_level

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        torch.nn.init.uniform_(self.values, -_SPREAD, _SPREAD)
        # Modules that were made on the meta device have none of their constants.
        for name, value in self._constants(tables=self.code is None).items():
            getattr(self, name).copy_(value)

    def forward(self, position: Tensor) -> Tensor:
        """Encode positions."""
        position = self._check(position)
        at = self._locate(*self._on_levels(position))
        shape = (self.num_levels, len(position), self.features_per_level)
        out = at.slice(self.values).view(shape)
        return out.movedim(0, 1).flatten(1)

    def _check(self, position: Tensor) -> Tensor:
        check_not_vmapped(self, position)
        position = check_points("position", position, "batch", None)
        if position.shape[1] != self.dim:
            fail(self, f"Expected 'position' of shape [N, {self.dim}] (got {list(position.shape)})")
        if position.device != self.scale.device:
            fail(self, f"Expected 'position' on {self.scale.device} (got {position.device})")
        check_finite(self, "position", position)
        return position

    def _on_levels(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features of positions on all levels ``[L N, d]``, and the level of each."""
        dtype = position.dtype
        aligned = position @ self.rotation.to(dtype)
        scale, shift = self.scale.to(dtype), self.shift.to(dtype)
        feature = torch.addcmul(shift[:, None], aligned, scale[:, None, None])
        level = torch.arange(self.num_levels, device=position.device)
        return feature.flatten(0, 1), level.repeat_interleave(len(position))

    def _locate(self, feature: Tensor, level: Tensor) -> Incidence:
        if self.code is None or self.box is None:
            weight, row = ops.hash_locate(feature, level, self.width, self.table, _VARIANCE)
        else:
            slots = ops.hash_codes(self.code)
            weight, row = ops.locate(feature, level, self.code, self.box, slots, _VARIANCE)
            weight, row = torch.where(row < 0, 0.0, weight), row.clamp_min(0)
        return Incidence(row, weight, len(self.values), complete=True)

    def _constants(self, tables: bool) -> dict[str, Tensor]:
        """Return the buffers that follow from the arguments, on the CPU."""
        with torch.device("cpu"):
            levels = torch.arange(self.num_levels, dtype=torch.float64)
            rotation, factor = aligned_frame(self.dim, _VARIANCE)
            resolution = self.base_resolution * self.growth_factor**levels
            scale = resolution / factor.prod() ** (1 / self.dim)
            order = torch.arange(self.num_levels * self.dim, dtype=torch.float64)
            shift = (order.view(self.num_levels, self.dim) + 1) * _GOLDEN % 1
            found = {"rotation": rotation, "scale": scale, "shift": shift}
            return {**found, **self._plan_tables(scale, factor)} if tables else found

    def _plan_tables(self, scales: Tensor, factor: Tensor) -> dict[str, Tensor]:
        """Return the widths and the table of each level: first row, rows, and whether dense."""
        widths, tables, first = [], [], 0
        for i, scale in enumerate(scales.tolist()):
            width = dense_widths(scale, factor)
            size = math.prod(width)
            if self.table_size is None and size > _MOST_EXACT:
                fail(
                    self,
                    f"Expected levels of at most {_MOST_EXACT} rows (got {size} on level {i}): "
                    "give 'table_size' to share rows, or 'points' for the vertices around them",
                )
            dense = self.table_size is None or size <= self.table_size
            size = size if dense else int(self.table_size or 0)
            widths.append([min(each, 2**31) for each in width])
            tables.append([first, size, int(dense)])
            first += size
        if first > _MOST_ROWS:
            fail(self, f"Expected at most {_MOST_ROWS} rows in all levels (got {first})")
        return {"width": torch.tensor(widths), "table": torch.tensor(tables)}

    def _find_vertices(self, points: Tensor | None) -> int:
        """Set the vertices around points, and return the number of rows."""
        if points is None:
            self.register_buffer("code", None)
            self.register_buffer("box", None)
            return int(self.table[-1, :2].sum())
        with torch.no_grad(), torch.device("cpu"):
            lattice = Lattice.build(*self._on_levels(self._check(points)))
        self.register_buffer("code", lattice.code)
        self.register_buffer("box", lattice.box)
        return lattice.num_vertices

    def __repr__(self) -> str:
        parts = [f"{self.dim}, num_levels={self.num_levels}"]
        parts.append(f"features_per_level={self.features_per_level}")
        parts.append(f"base_resolution={self.base_resolution:g}")
        parts.append(f"growth_factor={self.growth_factor:g}")
        if self.table_size is not None:
            parts.append(f"table_size={self.table_size}")
        return f"{type(self).__name__}({', '.join(parts)}, rows={len(self.values)})"
