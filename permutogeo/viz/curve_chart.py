"""Curves of several runs in one chart."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from permutogeo.data.files import replacing
from permutogeo.viz.drawing import check_picture_path

Points = Sequence[tuple[float, float]]


def curve_chart(
    path: str | os.PathLike[str],
    curves: Mapping[str, Points],
    x: str,
    y: str,
    *,
    level: float | None = None,
    log: bool = False,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    r"""Draws curves with a legend, such as the accuracy of several networks over the epochs.

    Args:
        path: Output file (``.png``, ``.jpg``, ``.webp``), written atomically.
        curves: A list of points :math:`(x, y)` by name.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        level: A value to mark by a horizontal line.
        log: Whether the vertical axis is logarithmic.
        styles: Line properties of Matplotlib by name, where colors do not suffice.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from permutogeo.viz import curve_chart
        >>> curves = {"lattice": [(1, 0.5), (2, 0.8)], "grid": [(1, 0.4), (2, 0.6)]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     curve_chart(Path(folder, "curves.png"), curves, "epoch", "accuracy").name
        'curves.png'
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    check_picture_path(path)
    if not curves or not all(len(points) for points in curves.values()):
        got = {name: len(points) for name, points in curves.items()}
        raise ValueError(f"curve_chart: Expected curves of at least one point (got {got})")
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        style = (styles or {}).get(name, {})
        axes.plot(*zip(*points, strict=True), marker=".", label=name, **style)
    if level is not None:
        axes.axhline(level, color="gray", linestyle=":")
    axes.set(xlabel=x, ylabel=y, yscale="log" if log else "linear")
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", handlelength=3)
    with replacing(Path(path)) as temporary:
        figure.savefig(temporary, dpi=120)
    return Path(path)
