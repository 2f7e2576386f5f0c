"""Trained weights shipped with the package, and the file format of weights and checkpoints.

>>> from permutogeo import weights
>>> "mesh_denoiser" in weights.names()
True
"""

from permutogeo.weights.pretrained import FOLDER, SETTINGS, Pretrained, card, load, names, save
from permutogeo.weights.storage import read_safetensors, write_safetensors

__all__ = [
    "FOLDER",
    "SETTINGS",
    "Pretrained",
    "card",
    "load",
    "names",
    "read_safetensors",
    "save",
    "write_safetensors",
]
