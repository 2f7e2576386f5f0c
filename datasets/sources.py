"""Files of the datasets: locating, downloading, and reading of array archives."""

from __future__ import annotations

import hashlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import numpy as np
from filelock import FileLock

from permutogeo.data.files import replacing

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Origin:
    """Published location of a dataset.

    Attributes:
        page: Web page of the dataset.
        url: File to download; empty if its checksum is not known.
        sha256: Checksum of that file.
    """

    page: str
    url: str = ""
    sha256: str = ""


def find_file(owner: str, root: str | os.PathLike[str] | None, name: str, what: str) -> Path:
    """Return the path of a file below ``root`` or ``$PERMUTOGEO_DATA``.

    Args:
        owner: The dataset that errors name.
        root: Folder of the data;
            by default ``$PERMUTOGEO_DATA``.
        name: Path of the file in that folder.
        what: Contents of the file, for the error if it is missing.
    """
    folder = os.environ.get("PERMUTOGEO_DATA") if root is None else root
    if not folder:
        raise FileNotFoundError(
            f"{owner}: Expected 'root', or the environment variable PERMUTOGEO_DATA, to name the "
            f"folder that holds '{name}': {what} (got neither)"
        )
    path = Path(folder).expanduser() / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{owner}: Expected the file '{path}' (there is none). It holds {what}; put it there, "
            f"or name the folder that has '{name}' by 'root' or PERMUTOGEO_DATA"
        )
    return path


def find_source(
    owner: str,
    root: str | os.PathLike[str] | None,
    folder: str,
    names: Sequence[str],
    origin: Origin,
    fetch: bool = False,
) -> tuple[Path, str]:
    """Return the first of several files or folders that exists, downloading it if asked to.

    Args:
        owner: The dataset that errors name.
        root: Folder of the data;
            by default ``$PERMUTOGEO_DATA``.
        folder: Subfolder of the dataset; files directly in ``root`` are found too.
        names: Files and folders in order of preference; the last is the download.
        origin: Where the dataset is published.
        fetch: Whether to download the original if nothing is found.

    Returns:
        The path, and which of ``names`` it is.
    """
    given = os.environ.get("PERMUTOGEO_DATA") if root is None else root
    top = Path(given).expanduser() if given else None
    if top is not None:
        for name in names:
            for path in (top / folder / name, top / name):
                if path.exists():
                    return path, name
        if fetch and origin.sha256:
            path = download(owner, origin.url, origin.sha256, top / folder / names[-1])
            return path, names[-1]
    wanted = ", ".join(f"'{folder}/{name}'" for name in names)
    hint = f"Get it from {origin.page}" + (" or give download=True" if origin.sha256 else "")
    raise FileNotFoundError(
        f"{owner}: Expected 'root', or the environment variable PERMUTOGEO_DATA, to name a folder "
        f"with one of {wanted} (got {f'{str(top)!r} without any' if top else 'neither'}). {hint}"
    )


def download(owner: str, url: str, sha256: str, path: Path) -> Path:
    """Download a file to ``path`` and verify its checksum; an existing file is kept.

    Concurrent processes wait for the first of them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.is_file():
            return path
        try:
            with replacing(path) as temporary:
                found = _fetch(url, temporary)
                if found != sha256:
                    raise ValueError(
                        f"{owner}: Expected a file with the sha256 {sha256} from {url} "
                        f"(got {found}); nothing was kept"
                    )
        except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it is the response, too
            raise ConnectionError(
                f"{owner}: Expected to download {url} ({error}). Fetch it by other means and "
                f"put it at '{path}'"
            ) from error
    return path


def _fetch(url: str, path: Path) -> str:
    """Write the content of a URL to ``path`` and return its sha256."""
    from rich.console import Console
    from rich.progress import wrap_file

    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=60) as response, open(path, "wb") as file:
        total = int(response.headers.get("Content-Length") or 0)
        shown = wrap_file(
            response,
            total,
            description=f"Download {url.rpartition('/')[2]}",
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        with shown as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    return digest.hexdigest()


def read_arrays(path: Path, shapes: Mapping[str, tuple[int | None, ...]]) -> dict[str, np.ndarray]:
    """Return the named arrays of an ``.npz`` archive, checked for shape (``None``: any size)."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in shapes}
    except Exception as error:
        raise ValueError(
            f"'{path}': Expected an archive with {', '.join(shapes)} ({error})"
        ) from error
    for name, shape in shapes.items():
        got = arrays[name].shape
        fits = len(got) == len(shape) and all(
            size in (None, n) for size, n in zip(shape, got, strict=True)
        )
        if not fits:
            expected = ["*" if size is None else size for size in shape]
            raise ValueError(f"'{path}': Expected '{name}' of shape {expected} (got {list(got)})")
    return arrays


def read_mesh_names(path: Path, prefix: str) -> list[str]:
    """Return the names of the meshes in an ``.npz`` archive: array names without ``prefix``."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            files = list(archive.files)
    except Exception as error:
        raise ValueError(f"'{path}': Expected an archive of meshes ({error})") from error
    names = [name.removeprefix(prefix) for name in files if name.startswith(prefix)]
    if not names:
        found = ", ".join(files[:4]) or "nothing"
        raise ValueError(f"'{path}': Expected arrays named '{prefix}<mesh>' (found {found})")
    return names
