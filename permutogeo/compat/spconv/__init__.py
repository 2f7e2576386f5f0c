"""Drop-in replacement for the ``spconv`` package, version 2, on CPU and GPU.

Change the import and nothing else:

>>> import torch
>>> import permutogeo.compat.spconv.pytorch as spconv
>>> net = spconv.SparseSequential(
...     spconv.SubMConv3d(4, 8, 3, indice_key="fine"),
...     torch.nn.ReLU(),
...     spconv.SparseConv3d(8, 16, 2, stride=2, indice_key="down"),
...     spconv.SparseInverseConv3d(16, 8, 2, indice_key="down"),
... )
>>> indices = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 4], [0, 5, 5, 5]], dtype=torch.int32)
>>> x = spconv.SparseConvTensor(torch.rand(3, 4), indices, [8, 8, 8], batch_size=1)
>>> net(x).features.shape
torch.Size([3, 8])

State dicts of spconv load as they are, and outputs agree up to rounding;
docs/guides/spconv.md lists the differences.
"""

from __future__ import annotations

import importlib
import sys

# The version whose interface this package has.
__version__ = "2.3.8"

_SUBMODULES = (
    "core",
    "pytorch",
    *(
        f"pytorch.{name}"
        for name in ("conv", "core", "functional", "modules", "ops", "pool", "tables")
    ),
)


def install() -> None:
    """Register this package as ``spconv``, for programs whose dependencies import it.

    Call it before anything imports ``spconv``.

    Raises:
        RuntimeError: If the original ``spconv`` is loaded already.

    Example:

        >>> install()  # doctest: +SKIP
        >>> import spconv.pytorch as spconv  # doctest: +SKIP
    """
    modules = {"spconv": sys.modules[__name__]}
    for name in _SUBMODULES:
        modules[f"spconv.{name}"] = importlib.import_module(f"{__name__}.{name}")
    for name, module in modules.items():
        if sys.modules.get(name, module) is not module:
            raise RuntimeError(
                f"Expected to install before spconv is imported (got '{name}' of "
                f"{sys.modules[name].__file__})"
            )
    sys.modules.update(modules)
