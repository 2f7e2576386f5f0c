"""The permutohedral lattice: vertices, incidence of points, normalization, coarsening, diagonal."""

from permutogeo.lattice.incidence import Incidence
from permutogeo.lattice.lattice import Lattice

__all__ = ["Incidence", "Lattice"]
