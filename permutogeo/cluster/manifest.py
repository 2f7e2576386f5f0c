"""The manifest of a folder of outputs: what was made from what, how, and by which version."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permutogeo import __version__

MANIFEST_NAME = "permutogeo-manifest.jsonl"


def fingerprint(path: Path) -> dict[str, Any]:
    """Return size and time of change of a file, by which a change is noticed."""
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


class Manifest:
    """Lines of JSON, one for each completed job, appended as jobs complete.

    A line that a killed process wrote in part is ignored.

    Args:
        folder: Folder of the outputs.
        settings: Settings of the run; a job of other settings or another version is not done.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None):
        self.path = folder / MANIFEST_NAME
        self.settings = json.loads(json.dumps(settings or {}, default=str))
        self.entries: dict[str, dict[str, Any]] = {}
        if self.path.is_file():
            for line in self.path.read_text(errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                    self.entries[entry["target"]] = entry
                except (ValueError, KeyError, TypeError):
                    continue

    def is_done(self, source: Path, target: Path) -> bool:
        """Return whether the target was made from this source, by these settings and version."""
        entry = self.entries.get(self._name(target))
        if entry is None or not target.is_file() or not source.is_file():
            return False
        return (
            entry.get("source") == str(source.resolve())
            and entry.get("source_file") == fingerprint(source)
            and entry.get("target_file") == fingerprint(target)
            and entry.get("settings") == self.settings
            and entry.get("version") == __version__
        )

    def add(self, source: Path, target: Path, seconds: float) -> None:
        """Record a completed job."""
        entry = {
            "target": self._name(target),
            "source": str(source.resolve()),
            "source_file": fingerprint(source),
            "target_file": fingerprint(target),
            "sha256": file_digest(target),
            "settings": self.settings,
            "version": __version__,
            "seconds": round(seconds, 3),
        }
        self.entries[entry["target"]] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            # A line that a killed process left unfinished ends here.
            lead = b"" if file.tell() == 0 or _ends_line(self.path) else b"\n"
            file.write(lead + json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _name(self, target: Path) -> str:
        return os.path.relpath(target.resolve(), self.path.parent.resolve())


def _ends_line(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
