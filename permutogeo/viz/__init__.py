"""Pictures and HTML pages of meshes, clouds, segmentations, lattice cells, filters, experiments."""

from permutogeo.viz.cloud_map import cloud_map
from permutogeo.viz.colors import palette
from permutogeo.viz.curve_chart import curve_chart
from permutogeo.viz.experiment_page import experiment_page
from permutogeo.viz.filter_slices import filter_slices
from permutogeo.viz.image_panels import image_panels
from permutogeo.viz.lattice_cells import lattice_cells
from permutogeo.viz.mesh_picture import mesh_picture
from permutogeo.viz.mesh_report import mesh_report
from permutogeo.viz.overlay import overlay

__all__ = [
    "cloud_map",
    "curve_chart",
    "experiment_page",
    "filter_slices",
    "image_panels",
    "lattice_cells",
    "mesh_picture",
    "mesh_report",
    "overlay",
    "palette",
]
