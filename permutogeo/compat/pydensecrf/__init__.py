"""Drop-in replacement for the ``pydensecrf`` package.

Change the import and nothing else:

>>> import numpy as np
>>> import permutogeo.compat.pydensecrf.densecrf as dcrf
>>> from permutogeo.compat.pydensecrf.utils import unary_from_labels
>>> image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
>>> labels = (image[:, :, 0] > 127).astype(int)
>>> crf = dcrf.DenseCRF2D(30, 20, 2)  # width, height, labels
>>> crf.setUnaryEnergy(unary_from_labels(labels, 2, gt_prob=0.7, zero_unsure=False))
>>> crf.addPairwiseGaussian(sxy=3, compat=3)
>>> crf.addPairwiseBilateral(sxy=80, srgb=13, rgbim=image, compat=10)
>>> marginals = crf.inference(5)
>>> np.argmax(marginals, axis=0).reshape(20, 30).shape
(20, 30)

Marginals agree with those of pydensecrf up to rounding. Where that package would access memory out
of bounds, a ``ValueError`` is raised.
"""

from __future__ import annotations

import importlib
import sys

_SUBMODULES = ("densecrf", "utils", "eigen")


def install() -> None:
    """Register this package as ``pydensecrf``, for programs whose dependencies import it.

    Call it before anything imports ``pydensecrf``; ``python -m permutogeo.compat.pydensecrf
    script.py`` runs a script that way.

    Raises:
        RuntimeError: If the original ``pydensecrf`` is loaded already.

    Example:

        >>> install()  # doctest: +SKIP
        >>> import pydensecrf.densecrf  # doctest: +SKIP
    """
    modules = {"pydensecrf": sys.modules[__name__]}
    for name in _SUBMODULES:
        modules[f"pydensecrf.{name}"] = importlib.import_module(f"{__name__}.{name}")
    for name, module in modules.items():
        if sys.modules.get(name, module) is not module:
            raise RuntimeError(
                f"Expected to install before pydensecrf is imported (got '{name}' of "
                f"{sys.modules[name].__file__})"
            )
    sys.modules.update(modules)
