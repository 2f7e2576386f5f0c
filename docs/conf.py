"""Configuration of the documentation site; `make docs` builds it."""

import logging
import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

from gallery import EXECUTED  # noqa: E402

from permutogeo import __version__  # noqa: E402

project = "permutogeo"
author = "the permutogeo authors"
copyright = "the permutogeo authors, Apache-2.0"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "gallery",
    "results",
]
exclude_patterns = ["_build", "_extensions", "inventories", "figures", "runs", "gallery/**/*.json"]
nitpicky = True
nitpick_ignore_regex = [line.split() for line in (HERE / "nitpick.txt").read_text().splitlines()]

# Open3D announces its viewer in notebooks.
os.environ["OPEN3D_DISABLE_WEB_VISUALIZER"] = "true"
# Tutorials call torchrun and permutogeo of this environment, without progress bars.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["TTY_INTERACTIVE"] = "0"
# Kernels warn that they listen on TCP; settings of the user's own IPython are left out.
os.environ["IPYTHONDIR"] = str(HERE / "_build" / "ipython")
profile = HERE / "_build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
logging.getLogger("traitlets").setLevel(logging.ERROR)

# Markdown and notebooks. Tutorials run at every build: a cache would hide a changed library.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 900  # of a cell; busy machines
nb_merge_streams = True
suppress_warnings = ["config.cache"]

# Examples: `_extensions/gallery.py` says which run, and where the pictures of the others come from.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/({'|'.join(EXECUTED)})\.py$",
    "ignore_pattern": r"^_",
    "copyfile_regex": r"_\w+\.py$",  # modules that examples share, for the archive of all
    "run_stale_examples": True,
    "nested_sections": False,
    "within_subsection_order": "FileNameSortKey",
    "reset_argv": "gallery.arguments",
    "image_scrapers": ("gallery.written_pictures",),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("permutogeo",),
    "notebook_extensions": set(),  # the scripts take arguments
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
}

# Docstrings follow Google's style, with PyG's section "Shapes".
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_custom_sections = [("Shapes", "notes_style"), ("Shape", "notes_style")]
napoleon_use_rtype = False
python_use_unqualified_type_names = True
add_module_names = False

# The inventories are kept here (`python docs/inventories/make.py`), since the build has no network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3/", "inventories/python.inv"),
    "numpy": ("https://numpy.org/doc/stable/", "inventories/numpy.inv"),
    "torch": ("https://docs.pytorch.org/docs/stable/", "inventories/torch.inv"),
    "torch_geometric": (
        "https://pytorch-geometric.readthedocs.io/en/latest/",
        "inventories/torch_geometric.inv",
    ),
}

html_theme = "furo"
pygments_dark_style = "github-dark"  # the default underlines imports like links
html_title = f"permutogeo {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
mathjax_path = "mathjax/tex-chtml.js"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Warnings about the scale of toy lattices are part of guides, not of the build's output.
warnings.filterwarnings("ignore", message="`torch.jit.script` is")


def _copy_mathjax(app, error):
    """Copy MathJax beside the pages, so that formulas show without a network."""
    from sphinx.util.fileutil import copy_asset

    source = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    target = Path(app.outdir, "_static", "mathjax")
    if error is None and app.builder.format == "html":
        copy_asset(source / "tex-chtml.js", target)
        copy_asset(source / "output" / "chtml", target / "output" / "chtml")


def setup(app):
    """Connect the steps that have no extension of their own."""
    app.connect("build-finished", _copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
