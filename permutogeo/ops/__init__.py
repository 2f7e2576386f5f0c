"""Torch operators over the kernels: ``torch.ops.permutogeo.*``.

Each has a fake, an autograd formula made of the same operators (so that it can be differentiated
again) and an autocast rule (float32). They take what :class:`permutogeo.Lattice` has checked.
"""

from permutogeo.ops.blur import blur
from permutogeo.ops.build import build
from permutogeo.ops.convolve import convolve, convolve_backward, correlate
from permutogeo.ops.convolve_channelwise import convolve_channelwise, correlate_channelwise
from permutogeo.ops.dot import dot
from permutogeo.ops.embed import embed_adjoint, embed_tangent
from permutogeo.ops.locate import find, hash_codes, locate
from permutogeo.ops.neighbors import neighbors, opposite
from permutogeo.ops.plan import plan
from permutogeo.ops.slice import slice
from permutogeo.ops.splat import splat

__all__ = [
    "blur",
    "build",
    "convolve",
    "convolve_backward",
    "convolve_channelwise",
    "correlate",
    "correlate_channelwise",
    "dot",
    "embed_adjoint",
    "embed_tangent",
    "find",
    "hash_codes",
    "locate",
    "neighbors",
    "opposite",
    "plan",
    "slice",
    "splat",
]
