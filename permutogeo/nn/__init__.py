"""Lattice layers with the interface of PyTorch Geometric.

>>> import torch
>>> from permutogeo.nn import BilateralConv
>>> conv = BilateralConv(3, 8, dim=2)
>>> conv(torch.rand(50, 3), torch.rand(50, 2) * 5).shape
torch.Size([50, 8])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from permutogeo.nn.bilateral_conv import BilateralConv
    from permutogeo.nn.bilateral_solver import BilateralLabelPropagation, BilateralSolver
    from permutogeo.nn.crf.compatibility import Compatibility
    from permutogeo.nn.crf.dense_crf import DenseCRF
    from permutogeo.nn.crf.kernels import GaussianKernel, LearnedKernel
    from permutogeo.nn.crf.loss import CRFLoss
    from permutogeo.nn.crf.parameter_groups import parameter_groups
    from permutogeo.nn.crf.solvers import FrankWolfe, MeanField
    from permutogeo.nn.gaussian_filter import GaussianFilter
    from permutogeo.nn.joint_upsample import JointBilateralUpsample
    from permutogeo.nn.lattice_attention import LatticeAttention
    from permutogeo.nn.lattice_conv import LatticeConv
    from permutogeo.nn.lattice_norm import LatticeNorm
    from permutogeo.nn.lattice_pool import LatticePool
    from permutogeo.nn.lattice_slice import LatticeSlice
    from permutogeo.nn.lattice_unpool import LatticeUnpool
    from permutogeo.nn.permutohedral_encoding import PermutohedralEncoding
    from permutogeo.nn.point_net_splat import PointNetSplat

# Loaded on first use: a dense CRF needs none of PyG, which takes seconds to import.
_NAMES = {
    "BilateralConv": "bilateral_conv",
    "BilateralLabelPropagation": "bilateral_solver",
    "BilateralSolver": "bilateral_solver",
    "CRFLoss": "crf.loss",
    "Compatibility": "crf.compatibility",
    "DenseCRF": "crf.dense_crf",
    "FrankWolfe": "crf.solvers",
    "GaussianFilter": "gaussian_filter",
    "GaussianKernel": "crf.kernels",
    "JointBilateralUpsample": "joint_upsample",
    "LatticeAttention": "lattice_attention",
    "LatticeConv": "lattice_conv",
    "LatticeNorm": "lattice_norm",
    "LatticePool": "lattice_pool",
    "LatticeSlice": "lattice_slice",
    "LatticeUnpool": "lattice_unpool",
    "LearnedKernel": "crf.kernels",
    "MeanField": "crf.solvers",
    "PermutohedralEncoding": "permutohedral_encoding",
    "PointNetSplat": "point_net_splat",
    "parameter_groups": "crf.parameter_groups",
}

__all__ = [
    "BilateralConv",
    "BilateralLabelPropagation",
    "BilateralSolver",
    "CRFLoss",
    "Compatibility",
    "DenseCRF",
    "FrankWolfe",
    "GaussianFilter",
    "GaussianKernel",
    "JointBilateralUpsample",
    "LatticeAttention",
    "LatticeConv",
    "LatticeNorm",
    "LatticePool",
    "LatticeSlice",
    "LatticeUnpool",
    "LearnedKernel",
    "MeanField",
    "PermutohedralEncoding",
    "PointNetSplat",
    "parameter_groups",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
