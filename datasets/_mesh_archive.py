"""Archives that hold several meshes under prefixed names."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def names_in(path: Path, prefix: str) -> list[str]:
    """The names of the meshes in an archive: what follows ``prefix`` in those of its arrays."""
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
