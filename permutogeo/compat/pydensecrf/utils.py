"""Unary energies and pairwise features as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from logging import warning
from numbers import Number
from typing import Any

import numpy as np

from permutogeo.compat.pydensecrf._arguments import keep_one_copy


def unary_from_labels(
    labels: np.ndarray, n_labels: int, gt_prob: float, zero_unsure: bool = True
) -> np.ndarray:
    """Return the energies of labels that are right with probability ``gt_prob``; the other labels
    are equally probable.

    Args:
        labels: Label of each point, of any shape.
        n_labels: Number of labels, not counting 0 if ``zero_unsure``.
        gt_prob: Probability that a label is right, between 0 and 1.
        zero_unsure: Labels start at 1; at points labeled 0 all labels are equally probable.

    Shapes:
        - output: :math:`(L, N)` float32

    Example:

        >>> np.exp(-unary_from_labels(np.array([1, 2, 0]), 2, gt_prob=0.75))
        array([[0.75, 0.25, 0.5 ],
               [0.25, 0.75, 0.5 ]], dtype=float32)
    """
    assert 0 < gt_prob < 1, f"Expected 'gt_prob' between 0 and 1 (got {gt_prob})"
    labels = labels.flatten()
    if labels.dtype.kind == "u":  # 0 - 1 must be -1; overwritten below
        labels = labels.astype(np.int64)
    elsewhere = -np.log((1.0 - gt_prob) / (n_labels - 1))
    unary = np.full((n_labels, len(labels)), elsewhere, np.float32)
    unary[labels - 1 if zero_unsure else labels, np.arange(len(labels))] = -np.log(gt_prob)
    if zero_unsure:
        unary[:, labels == 0] = -np.log(1.0 / n_labels)
    return unary


def compute_unary(labels: np.ndarray, M: int, GT_PROB: float = 0.5) -> np.ndarray:
    """Deprecated name of :func:`unary_from_labels`; logs a warning."""
    warning("pydensecrf.compute_unary is deprecated, call unary_from_labels")
    return unary_from_labels(labels, M, GT_PROB)


def unary_from_softmax(
    sm: np.ndarray, scale: float | None = None, clip: float | None = 1e-5
) -> np.ndarray:
    """Return the energies of probabilities, their negative logarithms.

    Args:
        sm: Probabilities, labels first.
        scale: Confidence in (0, 1]; the rest is a uniform distribution.
        clip: Lower bound of the probabilities, which keeps energies finite.

    Shapes:
        - sm: :math:`(L, ...)`
        - output: :math:`(L, N)` float32
    """
    count = sm.shape[0]
    if scale is not None:
        assert 0 < scale <= 1, f"Expected 'scale' in (0, 1] (got {scale})"
        sm = scale * sm + np.full(sm.shape, (1 - scale) / count)
    if clip is not None:
        sm = np.clip(sm, clip, 1.0)
    return -np.log(sm).reshape([count, -1]).astype(np.float32)


def softmax_to_unary(sm: np.ndarray, GT_PROB: float = 1) -> np.ndarray:
    """Deprecated name of :func:`unary_from_softmax` without clipping; logs a warning."""
    warning("pydensecrf.softmax_to_unary is deprecated, call unary_from_softmax")
    return unary_from_softmax(sm, None if GT_PROB == 1 else GT_PROB, clip=None)


def create_pairwise_gaussian(sdims: Sequence[float], shape: Sequence[int]) -> np.ndarray:
    """Return grid positions divided by bandwidths, for ``addPairwiseEnergy``.

    Args:
        sdims: Bandwidth along each axis.
        shape: Size of the grid.

    Shapes:
        - output: :math:`(d, N)` float32

    Example:

        >>> create_pairwise_gaussian(sdims=(2, 4), shape=(2, 2))
        array([[0.  , 0.  , 0.5 , 0.5 ],
               [0.  , 0.25, 0.  , 0.25]], dtype=float32)
    """
    return _grid(sdims, shape).reshape([len(sdims), -1])


def create_pairwise_bilateral(
    sdims: Sequence[float], schan: Any, img: np.ndarray, chdim: int = -1
) -> np.ndarray:
    """Return positions and channels of an image of any dimension, divided by bandwidths, for
    ``addPairwiseEnergy``.

    Args:
        sdims: Bandwidth along each axis.
        schan: Bandwidth of each channel, or one number for all.
        img: The image.
        chdim: The axis of the channels, ``-1`` for a single channel without an axis.

    Shapes:
        - output: :math:`(d + C, N)` float32
    """
    channels = (img[np.newaxis] if chdim == -1 else np.moveaxis(img, chdim, 0)).astype(np.float32)
    if isinstance(schan, Number):
        schan = np.full(len(channels), schan)
    _divide(channels, schan)
    feature = np.concatenate([_grid(sdims, channels.shape[1:]), channels])
    return feature.reshape([len(feature), -1])


def _grid(sdims: Iterable[float], shape: Sequence[int]) -> np.ndarray:
    return _divide(np.indices(shape, np.float32), sdims)


def _divide(rows: np.ndarray, sigmas: Iterable[float]) -> np.ndarray:
    """Divide the first rows by the bandwidths, in place."""
    for row, sigma in enumerate(sigmas):
        rows[row] /= sigma
    return rows


keep_one_copy(__name__)
