"""Models of the Hugging Face Hub; ``huggingface_hub`` is imported by the first call."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
FILES = ("config.json", "model.safetensors")


def is_repository(name: str | os.PathLike[str]) -> bool:
    """Whether ``name`` has the form of a repository of the Hub, ``"owner/name"``."""
    return isinstance(name, str) and _REPOSITORY.fullmatch(name) is not None


def download_model(name: str, **options: Any) -> Path:
    """Return the folder of a model of the Hub, downloaded or from the cache.

    Args:
        name: ``"owner/name"``.
        options: Arguments of ``huggingface_hub.snapshot_download``, such as ``revision``,
            ``token``, ``cache_dir`` and ``local_files_only``.
    """
    hub = _library()
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(FILES), **options))
    except (OSError, ValueError) as error:  # the Hub's errors are of these kinds
        reason = str(error).strip().partition("\n")[0]
        raise FileNotFoundError(
            f"Expected a file, a folder or a model of the Hub (got '{name}': {reason})"
        ) from error


def upload_model(
    folder: Path, name: str, *, private: bool | None, token: str | None, message: str
) -> str:
    """Upload a folder to a repository, which is created if needed, and return its address."""
    api = _library().HfApi(token=token)
    address = api.create_repo(name, private=private, exist_ok=True)
    api.upload_folder(repo_id=address.repo_id, folder_path=folder, commit_message=message)
    return str(address)


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        message = "Models of the Hub need huggingface_hub: pip install 'permutogeo[hub]'"
        raise ImportError(message) from error
    return huggingface_hub
