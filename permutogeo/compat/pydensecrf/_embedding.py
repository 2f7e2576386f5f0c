"""Lattices over points rounded as in pydensecrf.

Features on a grid, such as positions divided by a bandwidth, often lie on faces between simplices
of the lattice. Rounding then decides which simplex contains a point, hence which vertices exist for
the blur to pass through, which is visible in the marginals. Points are therefore rounded as in
pydensecrf's single precision. A small offset orders equal coordinates by axis, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from permutogeo.lattice import Incidence, Lattice
from permutogeo.ops.single_precision import replicate_rounding
from permutogeo.runtime import threads

# Numbers in a chunk, which stays in the cache of a thread.
_CHUNK = 1 << 18


def run_in_chunks(job: Callable[[int, int], None], count: int, width: int) -> None:
    """Call ``job(first, last)`` for chunks of ``range(count)`` on the threads of the pool.

    Args:
        width: Numbers at each index.
    """
    step = max(1, _CHUNK // max(1, width))
    edges = [*range(0, count, step), count]
    threads.run_without_grad([partial(job, a, b) for a, b in pairwise(edges)])


def build_lattice(feature: np.ndarray) -> Lattice:
    """Build the lattice of pydensecrf over features :math:`(d, N)` float32.

    pydensecrf embeds points by fours and pads with zeros, which leaves empty vertices around the
    origin that the blur passes through.
    """
    count = feature.shape[1]
    if count % 4:
        feature = np.pad(feature, ((0, 0), (0, 1)))
    whole = Lattice.build(replicate_rounding(feature))
    vertex, weight = whole.vertex[:count], whole.weight[:count]
    incidence = Incidence(vertex, weight, whole.num_vertices, complete=True)
    return Lattice(whole.feature[:count], None, incidence, whole.code, whole.box)
