"""Custom torch operators over the kernels: ``torch.ops.permutogeo.*``.

Each has a fake implementation, an autograd formula in terms of the same operators (so that higher
derivatives work) and an autocast rule (float32). Arguments are checked by
:class:`permutogeo.Lattice`, not here.
"""

from permutogeo.ops.batch_norm import batch_norm, normalize, statistics
from permutogeo.ops.blur import blur
from permutogeo.ops.build import build, build_in_box
from permutogeo.ops.coarsen import coarsen
from permutogeo.ops.convolve import convolve, convolve_backward, correlate
from permutogeo.ops.convolve_channelwise import convolve_channelwise, correlate_channelwise
from permutogeo.ops.convolve_edges import convolve_edges, correlate_edges, edges_pay, sort_edges
from permutogeo.ops.dot import dot
from permutogeo.ops.embed import embed_adjoint, embed_tangent
from permutogeo.ops.hash_locate import hash_locate
from permutogeo.ops.locate import locate
from permutogeo.ops.neighbors import cubic_neighbors, neighbors, opposite
from permutogeo.ops.plan import sorting_pays, splat_plan, vertex_order
from permutogeo.ops.segment_max import attaining, segment_max, share, spread
from permutogeo.ops.slice import slice
from permutogeo.ops.splat import splat
from permutogeo.ops.table import find, hash_codes, sort_codes

__all__ = [
    "attaining",
    "batch_norm",
    "blur",
    "build",
    "build_in_box",
    "coarsen",
    "convolve",
    "convolve_backward",
    "convolve_channelwise",
    "convolve_edges",
    "correlate",
    "correlate_channelwise",
    "correlate_edges",
    "cubic_neighbors",
    "dot",
    "edges_pay",
    "embed_adjoint",
    "embed_tangent",
    "find",
    "hash_codes",
    "hash_locate",
    "locate",
    "neighbors",
    "normalize",
    "opposite",
    "segment_max",
    "share",
    "slice",
    "sort_codes",
    "sort_edges",
    "sorting_pays",
    "splat",
    "splat_plan",
    "spread",
    "statistics",
    "vertex_order",
]
