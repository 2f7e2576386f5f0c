"""The dense CRF classes of pydensecrf."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

import permutogeo.compat.pydensecrf.eigen as eigen
from permutogeo.compat.pydensecrf._arguments import (
    check_type,
    keep_one_copy,
    read_buffer,
    read_compatibility,
    read_int,
    read_sigmas,
)
from permutogeo.compat.pydensecrf._model import Model, Term, UnaryLogits

__all__ = [
    "CONST_KERNEL",
    "DIAG_KERNEL",
    "FULL_KERNEL",
    "NORMALIZE_AFTER",
    "NORMALIZE_BEFORE",
    "NORMALIZE_SYMMETRIC",
    "NO_NORMALIZATION",
    "ConstUnary",
    "DenseCRF",
    "DenseCRF2D",
    "KernelType",
    "LogisticUnary",
    "NormalizationType",
    "Unary",
    "eigen",
]


class KernelType(IntEnum):
    """Parameters of a kernel that pydensecrf could learn; inference does not depend on them."""

    CONST_KERNEL = 0
    DIAG_KERNEL = 1
    FULL_KERNEL = 2


class NormalizationType(IntEnum):
    """Normalization of a kernel by its response to ones."""

    NO_NORMALIZATION = 0
    NORMALIZE_BEFORE = 1
    NORMALIZE_AFTER = 2
    NORMALIZE_SYMMETRIC = 3


CONST_KERNEL, DIAG_KERNEL, FULL_KERNEL = KernelType
NO_NORMALIZATION, NORMALIZE_BEFORE, NORMALIZE_AFTER, NORMALIZE_SYMMETRIC = NormalizationType

_NORMALIZE: dict[int, str] = {
    NORMALIZE_BEFORE: "before",
    NORMALIZE_AFTER: "after",
    NORMALIZE_SYMMETRIC: "symmetric",
}


class Unary:
    """Base class of the unary energies. The first ``setUnary`` empties it."""

    __slots__ = ("_energy",)
    _energy: np.ndarray | None

    def __init__(self, *_: Any, **__: Any):
        self._energy = None


class ConstUnary(Unary):
    """Constant unary energies.

    Args:
        u: :math:`(L, N)` float32, C-contiguous.
    """

    __slots__ = ()

    def __init__(self, u: Any):
        self._energy = read_buffer("u", u, 2).copy()


class LogisticUnary(Unary):
    """Unary energies ``L @ f``, linear in features of the points.

    Args:
        L: :math:`(L, k)` float32, C-contiguous.
        f: :math:`(k, N)` float32, C-contiguous.
    """

    __slots__ = ()

    def __init__(self, L: Any, f: Any):
        weight, feature = read_buffer("L", L, 2), read_buffer("f", f, 2)
        if weight.shape[1] != len(feature):
            raise ValueError(
                f"Expected 'f' with a row for each of the {weight.shape[1]} columns of 'L' "
                f"(got {list(feature.shape)})"
            )
        self._energy = weight @ feature


class DenseCRF:
    """A fully connected CRF over points with arbitrary features.

    Args:
        nvar: Number of points.
        nlabels: Number of labels.

    Example:

        >>> crf = DenseCRF(100, 3)
        >>> crf.setUnaryEnergy(np.random.default_rng(0).random((3, 100), np.float32))
        >>> crf.addPairwiseEnergy(np.random.default_rng(1).random((2, 100), np.float32), compat=3)
        >>> np.array(crf.inference(5)).shape
        (3, 100)
    """

    __slots__ = ("_model", "_nlabel", "_nvar")

    def __init__(self, nvar: int, nlabels: int, *_: Any, **__: Any):
        self._nvar, self._nlabel = read_int(nvar), read_int(nlabels)
        if self._nvar < 0 or self._nlabel < 0:
            raise ValueError(
                f"Expected numbers of points and labels that are not negative (got {self._nvar} "
                f"points, {self._nlabel} labels)"
            )
        self._model = Model(self._nvar, self._nlabel)

    def setUnary(self, u: Unary) -> None:
        """Set the unary energies; ``u`` is empty afterwards."""
        check_type("u", u, Unary)
        energy, u._energy = u._energy, None
        if energy is not None and energy.shape[1] != self._nvar:
            raise ValueError(
                f"Expected unary energies of shape [L, {self._nvar}], one column for each point "
                f"(got {list(energy.shape)})"
            )
        self._model.unary = None if energy is None else UnaryLogits(energy)

    def setUnaryEnergy(self, u: Any, f: Any = None) -> None:
        """Set the unary energies to ``u``, or to ``u @ f``.

        Args:
            u: Negative logarithms of probabilities, :math:`(L, N)` float32, C-contiguous. A NaN
                raises a ``ValueError``, as does a point without a finite least energy.
            f: :math:`(N, N)` float32, C-contiguous.
        """
        energy = read_buffer("u", u, 2)
        if energy.shape != (self._nlabel, self._nvar):
            raise ValueError(
                f"Bad shape for unary energy: expected 'u' of shape "
                f"{[self._nlabel, self._nvar]}, labels by points (got {list(energy.shape)})"
            )
        if f is not None:
            self.setUnary(LogisticUnary(u, f))
        else:
            self._model.unary = UnaryLogits(energy)

    def addPairwiseEnergy(
        self,
        features: Any,
        compat: Any,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Add a Gaussian kernel over features.

        Args:
            features: Features of the points, divided by their bandwidths, :math:`(d, N)` float32,
                C-contiguous.
            compat: The label compatibility: a number for the Potts model, the penalty on different
                labels; a vector :math:`(L)` or a matrix :math:`(L, L)` float32, added to the energy
                (the matrix is symmetrized).
            kernel: Accepted and ignored.
            normalization: Normalization of the kernel.
        """
        rows = read_buffer("features", features, 2)
        if rows.shape[1] != self._nvar or not len(rows):
            raise ValueError(
                f"Bad shape for pairwise energy: expected 'features' of shape [d, {self._nvar}], "
                f"one column for each point (got {list(rows.shape)})"
            )
        self._add(rows.copy(), compat, kernel, normalization)

    def inference(self, niter: int) -> eigen.MatrixXf:
        """Return the marginals after ``niter`` mean-field steps, labels by points."""
        return _wrap(self._model.marginals(read_int(niter)))

    def startInference(self) -> tuple[eigen.MatrixXf, eigen.MatrixXf, eigen.MatrixXf]:
        """Return the initial marginals, all 0 without unary energies, and two matrices for
        ``stepInference``."""
        q = self._model.marginals(0)
        if self._model.unary is None:
            q.zero_()
        return _wrap(q), eigen.MatrixXf(), eigen.MatrixXf()

    def stepInference(self, Q: eigen.MatrixXf, tmp1: eigen.MatrixXf, tmp2: eigen.MatrixXf) -> None:
        """Run one mean-field step on the marginals, in place.

        Args:
            Q: The marginals.
            tmp1: Receives the logits if it has the shape of ``Q``.
            tmp2: Receives the energies of the last pairwise term if it has the shape of ``Q``.
        """
        for name, matrix in (("Q", Q), ("tmp1", tmp1), ("tmp2", tmp2)):
            check_type(name, matrix, eigen.MatrixXf)
        q, unary = self._marginals(Q), self._model.unary
        if tmp2.shape == Q.shape and tmp2 is not Q:
            _fill(tmp2, self._model.last_energy(q))
        logits = self._model.step(q)
        if tmp1.shape == Q.shape and tmp1 is not Q:
            _fill(tmp1, logits if unary is None else logits - torch.from_numpy(unary.least))

    def klDivergence(self, Q: eigen.MatrixXf) -> float:
        """Return the KL divergence of the marginals from the CRF's distribution, up to a constant
        and with each pair of points counted twice, as in pydensecrf."""
        check_type("Q", Q, eigen.MatrixXf)
        return self._model.divergence(self._marginals(Q))

    def _add(self, feature: np.ndarray, compat: Any, kernel: Any, normalization: Any) -> None:
        read_int(kernel)
        normalize = _NORMALIZE.get(read_int(normalization))
        finite = np.isfinite(feature)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(
                f"Expected finite features (got {feature[row, column]} for feature {row} of point "
                f"{column})"
            )
        self._model.add(Term(feature, read_compatibility(compat), normalize))

    def _marginals(self, Q: eigen.MatrixXf) -> Tensor:
        """Return a view of ``Q`` as ``[N, L]``."""
        points, labels = self._model.points, self._model.labels
        if Q.shape != (labels, points) or Q.dtype != np.float32 or not Q.flags.f_contiguous:
            raise ValueError(
                f"Expected 'Q' as startInference returns it, of shape {[labels, points]} "
                f"(got {list(Q.shape)} of {Q.dtype})"
            )
        return torch.from_numpy(Q.view(np.ndarray).T)


class DenseCRF2D(DenseCRF):
    """A fully connected CRF over the pixels of an image, in row-major order.

    Args:
        w: Width.
        h: Height.
        nlabels: Number of labels.
    """

    __slots__ = ("_h", "_w")

    def __init__(self, w: int, h: int, nlabels: int, *_: Any, **__: Any):
        self._w, self._h = read_int(w), read_int(h)
        if self._w < 0 or self._h < 0:
            raise ValueError(f"Expected a size that is not negative (got {self._w} x {self._h})")
        super().__init__(self._w * self._h, nlabels)

    def addPairwiseGaussian(
        self,
        sxy: Any,
        compat: Any,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Add a Gaussian kernel over positions.

        Args:
            sxy: Bandwidth in pixels, one number or ``(x, y)``.
            compat, kernel, normalization: As for :meth:`addPairwiseEnergy`.
        """
        feature = self._positions(sxy, 2)
        self._add(feature.reshape(2, -1), compat, kernel, normalization)

    def addPairwiseBilateral(
        self,
        sxy: Any,
        srgb: Any,
        rgbim: Any,
        compat: Any,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Add a Gaussian kernel over positions and colors.

        Args:
            sxy: Bandwidth in pixels, one number or ``(x, y)``.
            srgb: Bandwidth of the colors, one number or ``(r, g, b)``.
            rgbim: The image, :math:`(H, W, 3)` uint8, C-contiguous; may be read-only.
            compat, kernel, normalization: As for :meth:`addPairwiseEnergy`.
        """
        image = read_buffer("rgbim", rgbim, 3, "unsigned char", writable=False)
        if image.shape != (self._h, self._w, 3):
            raise ValueError(
                f"Bad shape for pairwise bilateral: expected 'rgbim' of shape "
                f"{[self._h, self._w, 3]} (got {list(image.shape)}); for images that are not RGB "
                f"pass what utils.create_pairwise_bilateral returns to addPairwiseEnergy"
            )
        feature = self._positions(sxy, 5)
        for channel, sigma in enumerate(read_sigmas("srgb", srgb, 3)):
            np.divide(image[:, :, channel], sigma, out=feature[2 + channel], dtype=np.float32)
        self._add(feature.reshape(5, -1), compat, kernel, normalization)

    def _positions(self, sxy: Any, dim: int) -> np.ndarray:
        """Return features ``[dim, H, W]`` with the scaled positions in the first two."""
        x, y = read_sigmas("sxy", sxy, 2)
        feature = np.empty((dim, self._h, self._w), np.float32)
        feature[0] = np.arange(self._w, dtype=np.float32) / x
        feature[1] = np.arange(self._h, dtype=np.float32)[:, None] / y
        return feature


def _wrap(q: Tensor) -> eigen.MatrixXf:
    return q.numpy().T.view(eigen.MatrixXf)


def _fill(matrix: eigen.MatrixXf, rows: Tensor) -> None:
    np.copyto(matrix, rows.numpy().T)


keep_one_copy(__name__)
