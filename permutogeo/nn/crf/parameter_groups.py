"""Parameter groups of optimizers for models with CRFs."""

from __future__ import annotations

import math
from typing import Any

from torch.nn import Module

from permutogeo.nn.crf.compatibility import Compatibility
from permutogeo.nn.crf.kernels import CRFKernel

# Rate of a CRF relative to that of the network before it.
_FACTOR = 10.0


def parameter_groups(model: Module, lr: float, crf_lr: float | None = None) -> list[dict[str, Any]]:
    """Return the parameters of a model for an optimizer, with a learning rate for those of CRFs.

    Adam moves each parameter by about its learning rate in a step, however large it is. The weights
    of kernels, compatibilities and filters of a CRF are of the order of 1 and few, those of a
    network of the order of 0.1 and many: at the rate of the network a CRF hardly leaves its start.

    Args:
        model: A model that contains :class:`DenseCRF` or :class:`CRFLoss`, or one of these.
        lr: Learning rate of the other parameters.
        crf_lr: Learning rate of the kernels and compatibilities, which are not decayed; by default
            ten times ``lr``.

    Returns:
        One group for the network and one for the CRF, without the group that has no parameters.

    Example:

        >>> import torch
        >>> from permutogeo.nn import DenseCRF, GaussianKernel
        >>> crf = DenseCRF(4, [GaussianKernel(2, learn_weight=True)])
        >>> model = torch.nn.ModuleDict({"net": torch.nn.Linear(3, 4), "crf": crf})
        >>> optimizer = torch.optim.AdamW(parameter_groups(model, lr=0.001))
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.001, 0.01]
    """
    crf_lr = _FACTOR * lr if crf_lr is None else crf_lr
    for name, rate in (("lr", lr), ("crf_lr", crf_lr)):
        if not 0 <= rate < math.inf:
            raise ValueError(f"parameter_groups: Expected '{name}' of 0 or more (got {rate})")
    owners = [m for m in model.modules() if isinstance(m, CRFKernel | Compatibility)]
    own = {id(p): p for owner in owners for p in owner.parameters()}
    rest = [p for p in model.parameters() if id(p) not in own]
    groups: list[dict[str, Any]] = [
        {"params": rest, "lr": lr},
        {"params": list(own.values()), "lr": crf_lr, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
