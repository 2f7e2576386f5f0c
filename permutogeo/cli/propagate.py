"""``permutogeo propagate``: sparse labels or scribbled colors to all pixels or points."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permutogeo.cli.console import note_compiling, note_loading, report_errors, say
from permutogeo.cli.image_files import compute_on, read_image, read_rgb, write_image, write_labels
from permutogeo.cli.options import Device, check_device, check_positive
from permutogeo.cli.paths import (
    GEOMETRY_SUFFIXES,
    IMAGE_OUTPUT_SUFFIXES,
    IMAGE_SUFFIXES,
    check_input,
    check_output,
    check_overwrite,
    make_folders,
)

if TYPE_CHECKING:
    import numpy as np

PICTURES = tuple(suffix for suffix in IMAGE_SUFFIXES if suffix != ".npy")
# Bandwidths of images in pixels, and of scans in mean distances between neighboring points.
SIGMA_IMAGE, SIGMA_SCAN = 3.0, 4.0
# Points whose nearest neighbor is measured.
SAMPLE = 4096


def propagate(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Image, or mesh or point cloud (PLY, OBJ, …).")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Labels as a PNG with a palette, a colored image, a PLY with 'label', or .npy.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Sparse labels. Of an image: a PNG of indices, or .npy of integers, -1 for none. "
            "Of a scan: .npy with a label for each point, or text with lines 'x y z label'."
        ),
    ] = None,
    colors: Annotated[
        Path | None,
        typer.Option(help="Scribbled colors: an image that is transparent elsewhere."),
    ] = None,
    unlabeled: Annotated[int, typer.Option(help="Index of pixels without a label.")] = 255,
    overlay: Annotated[
        Path | None, typer.Option(help="Also write the labels drawn over the image.")
    ] = None,
    sigma_pos: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth in pixels, 3 by default; of scans, in mean distances of points, 4."
        ),
    ] = None,
    sigma_color: Annotated[
        float | None,
        typer.Option(help="Bandwidth of colors in levels of 255; 50 by default, 6 with --colors."),
    ] = None,
    sigma_normal: Annotated[float, typer.Option(help="Bandwidth of normals of scans.")] = 0.3,
    lam: Annotated[float | None, typer.Option(help="Smoothness; by default 0.01, or 0.1.")] = None,
    hard: Annotated[bool, typer.Option("--hard", help="Keep the given labels exactly.")] = False,
    device: Device = "cpu",
) -> None:
    """Propagate sparse labels or scribbled colors by the fast bilateral solver.

    Example:

    \b
    permutogeo propagate photo.jpg --labels scribbles.png -o labels.png
    permutogeo propagate gray.png --colors scribbles.png -o colored.png
    permutogeo propagate scan.ply --labels clicks.txt -o labeled.ply
    """
    with report_errors():
        picture = source.suffix.lower() in PICTURES
        _check_paths(source, labels, colors, output, overlay, picture)
        sigmas = [sigma_pos, sigma_color, lam, sigma_normal]
        for name, value in zip(("pos", "color", "lam", "normal"), sigmas, strict=True):
            if value is not None:
                check_positive("--lam" if name == "lam" else f"--sigma-{name}", value)
        note_loading()
        check_device(device)
        note_compiling()
        if labels is None or not picture:
            make_folders([output])
        if colors is not None:
            _color_image(source, colors, output, sigma_pos, sigma_color, lam, device)
        elif picture and labels is not None:
            _label_image(
                source, labels, output, overlay, unlabeled, sigma_pos, sigma_color, lam, hard,
                device,
            )  # fmt: skip
        elif labels is not None:
            _label_scan(source, labels, output, sigma_pos, sigma_normal, lam, hard, device)


def _check_paths(
    source: Path,
    labels: Path | None,
    colors: Path | None,
    output: Path,
    overlay: Path | None,
    picture: bool,
) -> None:
    check_input(source, [*PICTURES, *GEOMETRY_SUFFIXES])
    if (labels is None) == (colors is None):
        raise ValueError("Expected either --labels or --colors")
    if not picture and (colors is not None or overlay is not None):
        raise ValueError("Expected --labels alone for meshes and clouds")
    if colors is not None:
        if overlay is not None:
            raise ValueError("Expected --overlay only with --labels")
        check_input(colors, PICTURES)
        check_output(output, [suffix for suffix in IMAGE_OUTPUT_SUFFIXES if suffix != ".npy"])
    elif labels is not None:
        check_input(labels, (*PICTURES, ".npy") if picture else (".npy", ".txt", ".csv"))
        check_output(output, (".png", ".npy") if picture else (".ply", ".npy"))
    outputs = [output]
    if overlay is not None:
        check_output(overlay, [suffix for suffix in IMAGE_OUTPUT_SUFFIXES if suffix != ".npy"])
        outputs.append(overlay)
    reads = [path for path in (source, labels, colors) if path is not None]
    check_overwrite(reads, [(path, source) for path in outputs])


def _label_image(
    source: Path,
    labels: Path,
    output: Path,
    overlay: Path | None,
    unlabeled: int,
    sigma_pos: float | None,
    sigma_color: float | None,
    lam: float | None,
    hard: bool,
    device: str,
) -> None:
    import torch

    from permutogeo.image import propagate_labels
    from permutogeo.viz import overlay as draw_overlay

    pixels, sparse = read_rgb(source), _read_indices(labels, unlabeled)
    if sparse.shape != pixels.shape[:2]:
        raise ValueError(
            f"'{labels}': Expected {pixels.shape[0]} x {pixels.shape[1]} pixels like the image "
            f"(got {' x '.join(map(str, sparse.shape))})"
        )
    image, label = torch.from_numpy(pixels).permute(2, 0, 1), torch.from_numpy(sparse)
    settings = (sigma_pos or SIGMA_IMAGE, sigma_color, lam or 0.01, hard)
    label = torch.as_tensor(propagate_labels(image.to(device), label.to(device), *settings))
    found = label.cpu().numpy()
    make_folders([output] if overlay is None else [output, overlay])
    _write_indices(output, found)
    say(f"{output}: {len(set(found.ravel().tolist()))} labels from {int((sparse >= 0).sum())}")
    if (sparse >= 0).all():
        say("All pixels had a label: --unlabeled INDEX says which index stands for none")
    if overlay is not None:
        draw_overlay(pixels, found, overlay)
        say(f"{overlay}")


def _color_image(
    source: Path,
    colors: Path,
    output: Path,
    sigma_pos: float | None,
    sigma_color: float | None,
    lam: float | None,
    device: str,
) -> None:
    from permutogeo.image import colorize

    gray, scribbles = read_rgb(source), read_image(colors)
    if scribbles.shape[2] != 4:
        raise ValueError(f"'{colors}': Expected colors with transparency (RGBA)")
    mask = scribbles[..., 3] > 0
    if mask.shape != gray.shape[:2] or not mask.any():
        raise ValueError(f"'{colors}': Expected scribbles on an image of the same size")
    level = None if sigma_color is None else sigma_color / 255
    found: Any = compute_on(
        device,
        lambda x, y: colorize(
            x, y[..., :3] if device == "cpu" else y[:3], mask, sigma_pos or 4.0, level, lam or 0.1
        ),
        gray.astype("float32") / 255,
        scribbles,
    )
    write_image(found, output, source)
    say(f"{output}: colored from {int(mask.sum())} pixels")


def _label_scan(
    source: Path,
    labels: Path,
    output: Path,
    sigma_pos: float | None,
    sigma_normal: float,
    lam: float | None,
    hard: bool,
    device: str,
) -> None:
    import torch
    from scipy.spatial import cKDTree

    from permutogeo.cli.mesh_files import has_faces, read_geometry, write_geometry
    from permutogeo.solvers import bilateral_label_propagation
    from permutogeo.transforms import VertexNormals

    data, _ = read_geometry(source)
    if has_faces(data):
        data = VertexNormals()(data)
    pos = data["pos"].double()
    tree = cKDTree(pos.numpy())
    sample = pos[:: max(1, len(pos) // SAMPLE)].numpy()
    spacing = float(tree.query(sample, k=2)[0][:, 1].mean()) or 1.0
    label = torch.from_numpy(_read_point_labels(labels, len(pos), tree))
    parts = [pos / (spacing * (sigma_pos or SIGMA_SCAN))]
    if data.get("normal") is not None:
        parts.append(data["normal"].double() / sigma_normal)
    feature = torch.cat(parts, 1).float().to(device)
    # Labels may be large: only those that occur take memory.
    names, number = label.unique(return_inverse=True)
    number = number - int(names[0] < 0)
    out = bilateral_label_propagation(number.to(device), feature, lam=lam or 0.01, hard=hard)
    found = names[names >= 0][out.argmax(1).cpu()]
    if output.suffix.lower() == ".npy":
        _write_indices(output, found.numpy())
    else:
        data.label = found
        write_geometry(data, output, source)
    say(f"{output}: {len(found.unique())} labels from {int((label >= 0).sum())}")


def _read_indices(path: Path, unlabeled: int) -> "np.ndarray":
    """Return the labels ``[H, W]`` of an image of indices or of an .npy, -1 for none."""
    from permutogeo.data.pixels import load_indices

    label = load_indices(path)
    if path.suffix.lower() != ".npy":
        label[label == unlabeled] = -1
    return _check_labels(path, label, -1 if path.suffix.lower() == ".npy" else unlabeled)


def _check_labels(path: Path, label: "np.ndarray", none: int) -> "np.ndarray":
    if label.min(initial=0) < -1:
        raise ValueError(
            f"'{path}': Expected labels of at least 0, or -1 for none (got {label.min()})"
        )
    if label.max(initial=-1) < 0:
        raise ValueError(f"'{path}': Expected at least one label (got {none} for none everywhere)")
    return label


def _read_point_labels(path: Path, count: int, tree: Any) -> "np.ndarray":
    """Return a label for each point, -1 for none; clicks go to the nearest point."""
    import numpy as np

    from permutogeo.data.files import read_file
    from permutogeo.data.formats.xyz import read_rows
    from permutogeo.data.pixels import load_indices

    if path.suffix.lower() == ".npy":
        label = load_indices(path, axes=1)
        if len(label) != count:
            raise ValueError(f"'{path}': Expected {count} labels (got {len(label)})")
        return _check_labels(path, label, -1)
    rows = read_file(path, read_rows, "lines 'x y z label'")
    whole = rows.ndim == 2 and rows.shape[1] == 4 and bool((rows[:, 3] == rows[:, 3].round()).all())
    if not whole or not np.isfinite(rows).all() or len(rows) == 0 or (rows[:, 3] < 0).any():
        raise ValueError(f"'{path}': Expected lines 'x y z label' with labels of at least 0")
    label = np.full(count, -1, np.int64)
    label[tree.query(rows[:, :3])[1]] = rows[:, 3].astype(np.int64)
    return label


def _write_indices(path: Path, labels: "np.ndarray") -> None:
    if path.suffix.lower() != ".npy":
        write_labels(path, labels)
        return
    import numpy as np

    from permutogeo.data.files import replacing

    with replacing(path) as temporary:
        np.save(temporary, labels, allow_pickle=False)
