"""Pages of the gallery, one an example, written from its docstring before each build.

An example's picture is ``gallery/pictures/NAME.png``, or the picture of a result that
``PICTURES`` names. An example without a picture is an error.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOCS = Path(__file__).parent.parent
EXAMPLES = DOCS.parent / "examples"
PICTURES = {
    "assamese": "runs/assamese_curve.png",
    "choose_scale": "runs/choose_scale_rooms.png",
    "colorize": "runs/solver_colorized.png",
    "compare_models": "runs/compare_rooms.png",
    "denoise_bodies": "runs/denoise_bodies.png",
    "denoise_images": "runs/denoise_images_filters.png",
    "explain_model": "runs/explanation.png",
    "fit_fields": "runs/encoding_image.png",
    "ground_lidar": "runs/lidar_ground.png",
    "propagate_labels": "runs/solver_labels.png",
    "solve_depth": "runs/solver_depth.png",
    "sparse_digits": "runs/sparse_digits_curve.png",
    "sparse_unet": "runs/spconv_classes.png",
    "tiles": "runs/tiles.png",
    "upsample_color": "runs/upsample_color_filters.png",
    "upsample_depth": "runs/upsample_depth_filters.png",
}
# Of pictures that do not show what the script prints or writes.
CAPTIONS = {
    "beyond": "The rows in which higher is better and no figure is missing. The axes do not "
    "begin at 0.",
    "click_labels": "Three clicks for each face of a generated solid, and the labels by the solver "
    "(docs/figures/gallery.py). The script draws a mesh of its data set.",
    "spatial_bound": "PSNR of the filters of `denoise_images.py` that the bound is compared with.",
    "scene_flow": "A generated pair of scans: the first in gray, the second in blue.",
    "train_cloud_denoiser": "Points of a generated solid with noise of 0.03, and denoised with the "
    "shipped weights.",
    "train_crf": "Mean IoU on test scenes ([Models](../guides/models.md)).",
    "train_denoiser": "A generated solid with noise of 0.25 edges, and denoised with the shipped "
    "weights.",
    "train_scenes": "A generated test street: true classes, and those by the shipped weights.",
}
INTRODUCTION = """# Gallery

Every script of `examples/`, with its picture. `--quick` runs a script in seconds. Those that need
data sets read them from the folder that `PERMUTOGEO_DATA` names; their pictures were recorded.
"""
SECTIONS = {"Examples": "*.py", "The paper's experiments": "paper/*.py"}


def examples(pattern: str) -> list[Path]:
    """Return the scripts of a folder, without their helpers."""
    return [path for path in sorted(EXAMPLES.glob(pattern)) if not path.name.startswith("_")]


def picture(name: str) -> str:
    """Return the picture of an example, relative to the gallery."""
    found = PICTURES.get(name, f"gallery/pictures/{name}.png")
    if not (DOCS / found).is_file():
        raise FileNotFoundError(f"Expected a picture of the example '{name}' as docs/{found}")
    return f"../{found}"


def caption(name: str) -> str:
    """Return the line below the picture of an example, if it has one."""
    return f"\n*{CAPTIONS[name]}*\n" if name in CAPTIONS else ""


def describe(path: Path) -> tuple[str, str]:
    """Return title and text of an example, in Markdown."""
    title, _, text = ast.get_docstring(ast.parse(path.read_text())).partition("\n")
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)  # roles of reStructuredText
    text = re.sub(r"docs/([\w/]+)\.md", r"[docs/\1.md](../\1.md)", text)
    text = re.sub(r"\n((?:    .*\n)+)", lambda m: f"\n```\n{_outdented(m[1])}```\n", text)
    return title.rstrip("."), text


def _outdented(lines: str) -> str:
    return re.sub(r"^    ", "", lines, flags=re.MULTILINE)


def page(path: Path) -> str:
    """Return the page of an example."""
    title, text = describe(path)
    source = Path("../..", path.relative_to(DOCS.parent)).as_posix()
    docstring = ast.parse(path.read_text()).body[0]
    return f"""# {title}

![{title.replace("`", "")}]({picture(path.stem)})
{caption(path.stem)}{text}

```{{literalinclude}} {source}
:language: python
:lines: {docstring.end_lineno + 2}-
```
"""


def card(path: Path) -> str:
    """Return the card of an example."""
    title, _ = describe(path)
    lines = [f":::{{grid-item-card}} {title}", f":img-top: {picture(path.stem)}"]
    return "\n".join([*lines, f":link: {path.stem}", ":link-type: doc", ":::", ""])


def write_pages(app) -> None:
    """Write the pages whose contents changed."""
    pages, lines = {}, [INTRODUCTION]
    for title, pattern in SECTIONS.items():
        found = examples(pattern)
        pages |= {path.stem: page(path) for path in found}
        lines += [f"## {title}", "", "::::{grid} 1 2 2 3", ":gutter: 3", ""]
        lines += [*map(card, found), "::::", ""]
    entries = [f"{name} <{name}>" for name in sorted(pages)]
    lines += ["```{toctree}", ":hidden:", "", *entries, "```", ""]
    pages["index"] = "\n".join(lines)
    for name, text in pages.items():
        target = Path(app.srcdir, "gallery", f"{name}.md")
        if not target.is_file() or target.read_text() != text:
            target.write_text(text)


def setup(app):
    """Register the step."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
