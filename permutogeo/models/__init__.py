"""Networks on the lattice, each in a page, called ``(x, feature, batch=None)``.

>>> import torch
>>> from permutogeo.models import LatticeUNet
>>> model = LatticeUNet(3, 16, 5, dim=2)
>>> model(torch.rand(50, 3), torch.rand(50, 2) * 5).shape
torch.Size([50, 5])
"""

from permutogeo.models.bilateral_net import BilateralNet
from permutogeo.models.lattice_unet import LatticeUNet
from permutogeo.models.mesh_denoiser import MeshDenoiser
from permutogeo.models.splat_net import SplatNet

__all__ = ["BilateralNet", "LatticeUNet", "MeshDenoiser", "SplatNet"]
