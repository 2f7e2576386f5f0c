"""Controls of the mesh report: switches, sliders, legend and histogram as HTML."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from permutogeo.viz.scene import Scene
from permutogeo.viz.web_page import without_folders

BINS = 50


def error_histograms(scene: Scene) -> list[dict[str, Any]]:
    """Return the error histogram of each shape; the last bin holds all larger errors."""
    edges = np.linspace(0.0, scene.scale_end, BINS + 1)
    edges[-1] = np.inf
    return [
        {
            "name": without_folders(shape.name),
            "counts": np.histogram(shape.error, edges)[0].tolist(),
        }
        for shape in scene.shapes
        if shape.error is not None
    ]


def histogram_figure(scene: Scene) -> str:
    """Return the histogram as an SVG with a cursor."""
    if not scene.has_errors:
        return ""
    found = error_histograms(scene)
    parts = [np.array(each["counts"]) / max(sum(each["counts"]), 1) for each in found]
    most = max(part.max() for part in parts)
    paths, names = [], []
    for i, (part, each) in enumerate(zip(parts, found, strict=True)):
        steps = "".join(f"V{100 - 100 * p / most:.2f}h{100 / BINS:g}" for p in part)
        paths.append(f'<path class="line{i % 4}" d="M0 100{steps}"/>')
        names.append(f'<b class="line{i % 4}">{escape(each["name"])}</b>')
    return (
        f'<div class="histogram">Histogram of {scene.quantity}s: {" ".join(names)}'
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">'
        f'{"".join(paths)}<line x1="50" x2="50" y1="0" y2="100"/></svg>'
        f'<input type="range" id="threshold" min="0" max="{BINS - 1}" value="{BINS // 2}" '
        f'aria-label="{scene.quantity} threshold"><span><output id="above"></output></span></div>'
    )


def checkboxes(scene: Scene) -> str:
    """Return the checkboxes for wireframe and split view."""
    names = {}
    if any(shape.face is not None for shape in scene.shapes):
        names["wireframe"] = "Wireframe"
    if len(scene.shapes) > 1:
        names["compare"] = "Compare"
    return "".join(
        f'<label class="switch"><input type="checkbox" id="{name}">{label}</label>'
        for name, label in names.items()
    )


def sliders(scene: Scene) -> str:
    """Return the strength slider and the choice of the compared meshes."""
    rows = []
    if any(scene.is_blendable(i) for i in range(len(scene.shapes))):
        first = escape(without_folders(scene.shapes[0].name))
        rows.append(
            f'<label>Strength, from {first} <input type="range" id="strength" min="0" max="100" '
            'value="100"><output id="strength-value">100 %</output></label>'
        )
    if len(scene.shapes) > 1:
        for side, chosen in (("left", 0), ("right", 1)):
            options = "".join(
                f'<option value="{i}"{" selected" if i == chosen else ""}>'
                f"{escape(without_folders(shape.name))}</option>"
                for i, shape in enumerate(scene.shapes)
            )
            label = side.capitalize()
            rows.append(
                f'<label class="compared">{label} <select id="{side}">{options}</select></label>'
            )
    return f'<div class="sliders">{"".join(rows)}</div>' if rows else ""


def divider(scene: Scene) -> str:
    """Return the divider of the split view."""
    if len(scene.shapes) == 1:
        return ""
    return (
        '<div class="divider" role="slider" tabindex="0" aria-label="divider" aria-valuemin="0" '
        'aria-valuemax="100" aria-valuenow="50"></div>'
    )


def keyboard_help(scene: Scene) -> str:
    """Return the keys that this page has, for its note."""
    keys = [f", E to see {scene.quantity}s"] if scene.has_errors else []
    if any(shape.face is not None for shape in scene.shapes):
        keys.append(", W for the wireframe")
    if len(scene.shapes) > 1:
        keys.append(", C to compare two meshes")
    return "".join(keys)


def mode_switch(scene: Scene) -> str:
    """Return the switch between shape, error and color."""
    names = {"shape": "Shape"}
    if scene.has_errors:
        names["error"] = scene.quantity.capitalize()
    if scene.has_colors:
        names["color"] = "Color"
    if len(names) == 1:
        return ""
    labels = [
        f'<label><input type="radio" name="mode" value="{name}"'
        f"{' checked' if name == 'shape' else ''}>{label}</label>"
        for name, label in names.items()
    ]
    return f"<fieldset>{''.join(labels)}</fieldset>"


def legend(scene: Scene) -> str:
    """Return the color scale of errors."""
    if not scene.has_errors:
        return ""
    end = scene.scale_end
    ticks = "".join(f"<span>{tick}</span>" for tick in ("0", f"{end / 2:g}", f"≥ {end:g}"))
    return (
        f'<div class="legend">{escape(scene.measure)} <span>{escape(scene.unit_text)}</span>'
        f'<div class="ramp"></div><div class="ticks">{ticks}</div></div>'
    )
