"""The files of a dataset, read from a folder, a zip or a tar without extracting anything."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

# Of one file; a header may claim any size.
_LARGEST = 1 << 28
_DAMAGES = (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
_TAR_SUFFIXES = (".tar", ".tgz", ".tar.gz")


class Files(ABC):
    """Named files of one place; it holds no open file, so that workers can share it.

    Args:
        path: The folder or the archive.
    """

    def __init__(self, path: Path):
        self.path = path

    @abstractmethod
    def stems(self, folder: str, suffix: str) -> list[str]:
        """Names without ``suffix`` of the files directly in ``folder``, sorted."""

    @abstractmethod
    def _bytes(self, name: str) -> bytes:
        """The content of a file; KeyError if there is none."""

    def read(self, name: str) -> bytes:
        """The content of a file."""
        check_name(self.path, name)
        try:
            return self._bytes(name)
        except KeyError:
            raise FileNotFoundError(
                f"'{self.path}': Expected the file '{name}' in it (there is none)"
            ) from None
        except _DAMAGES as error:
            raise ValueError(f"'{self.path}': Expected a whole file '{name}' ({error})") from error


class Folder(Files):
    """Files of a folder on disk."""

    def stems(self, folder: str, suffix: str) -> list[str]:
        place = self.path / folder
        found = place.iterdir() if place.is_dir() else ()
        return _stems((path.name for path in found if path.is_file()), suffix)

    def _bytes(self, name: str) -> bytes:
        path = self.path / name
        if not path.is_file():
            raise KeyError(name)
        check_size(self.path, name, path.stat().st_size)
        return path.read_bytes()


class Archive(Files):
    """Members of an archive.

    Args:
        path: The archive.
        inside: The folder in it that names are relative to.
    """

    #: The full names of all regular files.
    _names: Collection[str]

    def __init__(self, path: Path, inside: str = ""):
        super().__init__(path)
        self._inside = f"{inside}/" if inside else ""

    def stems(self, folder: str, suffix: str) -> list[str]:
        start = self._inside + (f"{folder}/" if folder else "")
        inner = (name[len(start) :] for name in self._names if name.startswith(start))
        return _stems((name for name in inner if "/" not in name), suffix)

    @abstractmethod
    def _member(self, name: str) -> bytes:
        """The content of a member by its full name; KeyError if there is none."""

    def _bytes(self, name: str) -> bytes:
        return self._member(self._inside + name)


class Zip(Archive):
    """Members of a zip."""

    def __init__(self, path: Path, inside: str = ""):
        super().__init__(path, inside)
        try:
            with zipfile.ZipFile(path) as archive:
                members = [info for info in archive.infolist() if not info.is_dir()]
        except _DAMAGES as error:
            raise ValueError(f"'{path}': Expected a zip archive ({error})") from error
        for info in members:
            check_name(path, info.filename)
        self._names = [info.filename for info in members]

    def _member(self, name: str) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            check_size(self.path, name, archive.getinfo(name).file_size)
            return archive.read(name)


class Tar(Archive):
    """Members of a tar; of a compressed one the wanted files are held in memory."""

    def __init__(self, path: Path, inside: str = ""):
        super().__init__(path, inside)
        self._place: dict[str, tuple[int, int]] = {}  # offset and size
        self._names = self._place.keys()
        self._held: dict[str, bytes] = {}
        try:
            with tarfile.open(path) as archive:
                self._index(archive, compressed=path.suffix != ".tar")
        except _DAMAGES as error:
            raise ValueError(f"'{path}': Expected a tar archive ({error})") from error

    def _index(self, archive: tarfile.TarFile, compressed: bool) -> None:
        for member in archive:
            check_name(self.path, member.name)
            if not member.isreg() or not member.name.startswith(self._inside):
                continue
            check_size(self.path, member.name, member.size)
            self._place[member.name] = (member.offset_data, member.size)
            if compressed:  # a second pass would unpack it all again
                file = archive.extractfile(member)
                self._held[member.name] = file.read() if file else b""

    def _member(self, name: str) -> bytes:
        if name in self._held:
            return self._held[name]
        start, size = self._place[name]
        with open(self.path, "rb") as file:
            file.seek(start)
            content = file.read(size)
        if len(content) < size:
            raise EOFError(f"{len(content)} of {size} bytes")
        return content


def open_files(path: Path, inside: str = "") -> Files:
    """The files of a folder, or of an archive by its suffix."""
    if path.is_dir():
        return Folder(path)
    return Tar(path, inside) if path.name.endswith(_TAR_SUFFIXES) else Zip(path, inside)


def _stems(names: Iterable[str], suffix: str) -> list[str]:
    """What is left of the visible names that end so, sorted."""
    found = (name for name in names if name.endswith(suffix) and not name.startswith("."))
    return sorted({name.removesuffix(suffix) for name in found})


def check_name(path: Path, name: str) -> None:
    """Raise unless a name stays within its place."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise ValueError(f"'{path}': Expected names of files within it (got {name!r})")


def check_size(path: Path, name: str, size: int) -> None:
    """Raise if a file is larger than any of a dataset of images."""
    if size > _LARGEST:
        raise ValueError(
            f"'{path}': Expected '{name}' of at most {_LARGEST:,} bytes (got {size:,})"
        )
