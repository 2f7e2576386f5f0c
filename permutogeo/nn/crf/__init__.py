"""Dense CRF: module, pairwise kernels, label compatibility, solvers and loss."""

from permutogeo.nn.crf.compatibility import Compatibility
from permutogeo.nn.crf.dense_crf import DenseCRF
from permutogeo.nn.crf.kernels import GaussianKernel, LearnedKernel
from permutogeo.nn.crf.loss import CRFLoss
from permutogeo.nn.crf.parameter_groups import parameter_groups
from permutogeo.nn.crf.solvers import FrankWolfe, MeanField

__all__ = [
    "CRFLoss",
    "Compatibility",
    "DenseCRF",
    "FrankWolfe",
    "GaussianKernel",
    "LearnedKernel",
    "MeanField",
    "parameter_groups",
]
