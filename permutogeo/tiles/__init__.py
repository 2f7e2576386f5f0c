"""Point clouds larger than memory, worked in tiles with a margin.

:func:`map_tiles` streams a LAS, LAZ or COPC file through a function, tile by tile;
:func:`split_tiles` and :func:`merge_tiles` write the tiles as files, for many machines. In reading
order: ``mapping`` (the public functions), ``grid`` (tiles and memory), ``sources`` (reading the
points of a box), ``reach`` (how wide a margin has to be).

>>> from permutogeo.tiles import lattice_reach
>>> sigma = 0.5  # bandwidth of a Gaussian filter over x, y, z
>>> margin = lattice_reach(dim=3) * sigma
>>> print(f"{margin:.2f}")
2.45
"""

from permutogeo.tiles.grid import Tile, default_memory
from permutogeo.tiles.mapping import TileRun, map_tiles, merge_tiles, split_tiles
from permutogeo.tiles.reach import lattice_reach

__all__ = [
    "Tile",
    "TileRun",
    "default_memory",
    "lattice_reach",
    "map_tiles",
    "merge_tiles",
    "split_tiles",
]
