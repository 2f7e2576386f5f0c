"""Pictures and HTML pages of meshes, segmentations, lattice cells, filters and experiments."""

from permutogeo.viz.colors import palette
from permutogeo.viz.experiment_page import experiment_page
from permutogeo.viz.filter_slices import filter_slices
from permutogeo.viz.image_panels import image_panels
from permutogeo.viz.lattice_cells import lattice_cells
from permutogeo.viz.mesh_picture import mesh_picture
from permutogeo.viz.mesh_report import mesh_report
from permutogeo.viz.overlay import overlay

__all__ = [
    "experiment_page",
    "filter_slices",
    "image_panels",
    "lattice_cells",
    "mesh_picture",
    "mesh_report",
    "overlay",
    "palette",
]
