"""Pictures: meshes side by side as PNG or as one HTML page, labels and lattice cells over an image,
images side by side, filters, and a page for an experiment."""

from permutogeo.viz.colors import palette
from permutogeo.viz.experiment_page import experiment_page
from permutogeo.viz.filters import filter_slices
from permutogeo.viz.lattice_cells import lattice_cells
from permutogeo.viz.overlay import overlay
from permutogeo.viz.panels import image_panels
from permutogeo.viz.picture import mesh_picture
from permutogeo.viz.report import mesh_report

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
