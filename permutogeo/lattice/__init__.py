"""The permutohedral lattice: vertices, incidence of points, normalization, coarsening, diagonal."""

from permutogeo.lattice.incidence import Incidence
from permutogeo.lattice.lattice import Lattice
from permutogeo.lattice.occupancy import ScaleWarning, occupied_neighbors
from permutogeo.lattice.scale import suggest_scale

__all__ = ["Incidence", "Lattice", "ScaleWarning", "occupied_neighbors", "suggest_scale"]
