"""Hooks of sphinx-gallery: pictures that executed examples write, recorded ones of the others.

Examples in ``EXECUTED`` run when the site is built. The others train for minutes or need data
sets; ``sphinx_gallery_thumbnail_path`` in the script names their recorded picture.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx_gallery.scrapers import figure_rst

EXECUTED = ("denoise_demo", "filter_image", "lattice_figures")
# sphinx-gallery writes this comment before the code.
CODE = ".. GENERATED FROM PYTHON SOURCE LINES"
THUMBNAIL = re.compile(r'^# sphinx_gallery_thumbnail_path = "(.*)"$', re.MULTILINE)
# Of pictures that do not show what the script prints or writes.
CAPTIONS = {
    "beyond": "The rows in which higher is better and no figure is missing. The axes do not "
    "begin at 0.",
    "click_labels": "Three clicks for each face of a generated solid, and the labels by the solver "
    "(docs/figures/gallery.py). The script draws a mesh of its data set.",
    "spatial_bound": "PSNR of the filters of ``denoise_images.py`` that the bound is compared "
    "with.",
    "scene_flow": "A generated pair of scans: the first in gray, the second in blue.",
    "train_cloud_denoiser": "Points of a generated solid with noise of 0.03, and denoised with the "
    "shipped weights.",
    "train_crf": "Mean IoU on test scenes (:doc:`/guides/models`).",
    "train_denoiser": "A generated solid with noise of 0.25 edges, and denoised with the shipped "
    "weights.",
    "train_scenes": "A generated test street: true classes, and those by the shipped weights.",
}


def output(gallery_conf: dict, script_vars: dict) -> Path:
    """Return the folder that an executed example writes to."""
    return Path(gallery_conf["src_dir"], "_build", "examples", Path(script_vars["src_file"]).stem)


def arguments(gallery_conf: dict, script_vars: dict) -> list[str]:
    """Return the arguments of an executed example, for an empty folder."""
    folder = output(gallery_conf, script_vars)
    shutil.rmtree(folder, ignore_errors=True)
    return ["--output", str(folder)]


def written_pictures(block: tuple, script_vars: dict, gallery_conf: dict) -> str:
    """Return the pictures that an example wrote, one below the other."""
    lines = []
    found = sorted(output(gallery_conf, script_vars).glob("*.png"))
    for source, target in zip(found, script_vars["image_path_iterator"], strict=False):
        shutil.copyfile(source, target)
        title = source.stem.replace("_", " ")
        lines.append(figure_rst([target], gallery_conf["src_dir"], fig_titles=title))
    return "\n".join(lines)


def recorded_picture(path: Path) -> str:
    """Return the recorded picture of a script with its caption, if it has one."""
    found = THUMBNAIL.search(path.read_text(encoding="utf-8"))
    if found is None:
        return ""
    title = path.stem.replace("_", " ")
    caption = CAPTIONS.get(path.stem, "") + " Recorded: the build does not run this script."
    return f".. figure:: /{found[1]}\n   :alt: {title}\n\n   {caption.strip()}\n\n"


def complete_page(app, docname: str, source: list[str]) -> None:
    """Add the recorded picture to a page, link documents, and shorten paths of outputs."""
    text, mark, code = source[0].partition(CODE)
    if not (docname.startswith("gallery/") and mark):
        return
    text = re.sub(r"docs/([\w/]+)\.md", r":doc:`/\1`", text)
    text += recorded_picture(Path(app.srcdir, f"{docname}.py"))
    folder = Path(app.srcdir, "_build", "examples", Path(docname).name)
    source[0] = text + mark + code.replace(str(folder), "output")


def setup(app):
    """Register the step."""
    app.connect("source-read", complete_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
