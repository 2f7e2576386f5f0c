"""Downloads that are complete and verified, or not there at all."""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from filelock import FileLock

from permutogeo.data._files import replacing

_CHUNK = 1 << 20


def download(owner: str, url: str, sha256: str, path: Path) -> Path:
    """The file of an address at ``path``, once its content has been found to be the right one.

    Processes that ask for it at the same time wait for the first of them.
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
            raise ConnectionError(
                f"{owner}: Expected to download {url} ({error}). Fetch it by other means and "
                f"put it at '{path}'"
            ) from error
    return path


def _fetch(url: str, path: Path) -> str:
    """Write the content of an address, and return its sha256."""
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
