"""Networks on the lattice, called ``(x, feature, batch=None, lattice=None)``.

>>> import torch
>>> from permutogeo.models import LatticeUNet
>>> model = LatticeUNet(3, 16, 5, dim=2)
>>> model(torch.rand(50, 3), torch.rand(50, 2) * 5).shape
torch.Size([50, 5])
"""

from permutogeo.models.bilateral_net import BilateralNet
from permutogeo.models.bilateral_transformer import BilateralTransformer
from permutogeo.models.bnn_deepcnet import BNNDeepCNet
from permutogeo.models.bnn_lenet import BNNLeNet
from permutogeo.models.hpl_flow_net import HPLFlowNet
from permutogeo.models.lattice_cnet import LatticeCNet
from permutogeo.models.lattice_net import LatticeNet
from permutogeo.models.lattice_unet import LatticeUNet
from permutogeo.models.splat_net import SplatNet
from permutogeo.models.splat_net_2d3d import SplatNet2D3D

__all__ = [
    "BNNDeepCNet",
    "BNNLeNet",
    "BilateralNet",
    "BilateralTransformer",
    "HPLFlowNet",
    "LatticeCNet",
    "LatticeNet",
    "LatticeUNet",
    "SplatNet",
    "SplatNet2D3D",
]
