"""Files in a folder, a zip or a tar, read without extracting the archive."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

# Limits of archives: a header may claim any size, and a few bytes may unpack to gigabytes.
_MAX_FILE = 1 << 28  # bytes of one file
_MAX_HELD = 1 << 30  # bytes of all files that a compressed tar holds in memory
_MAX_STREAM = 1 << 34  # bytes of a decompressed tar; the largest dataset has 3 GB
_MAX_FILES = 1_000_000
_READ_ERRORS = (
    *(OSError, EOFError, RuntimeError, OverflowError, UnicodeError, struct.error),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
)
_COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
_TAR_SUFFIXES = (".tar", ".tgz", ".tar.gz")


class Files(ABC):
    """Base class of file collections. No file is kept open, so that workers can share it.

    Args:
        path: Folder or archive.
    """

    def __init__(self, path: Path):
        self.path = path

    @abstractmethod
    def stems(self, folder: str, suffix: str) -> list[str]:
        """Return the sorted names, without ``suffix``, of the files directly in ``folder``."""

    @abstractmethod
    def _bytes(self, name: str) -> bytes:
        """Return the content of a file; raise KeyError if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        check_member_name(self.path, name)
        try:
            return self._bytes(name)
        except KeyError:
            raise FileNotFoundError(
                f"'{self.path}': Expected the file '{name}' in it (there is none)"
            ) from None
        except _READ_ERRORS as error:
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
        check_member_size(self.path, name, path.stat().st_size)
        return path.read_bytes()


class Archive(Files):
    """Base class of archives.

    Args:
        path: Archive file.
        inside: Folder in the archive that names are relative to.
    """

    #: Full names of all regular files.
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
        """Return the content of a member by its full name; raise KeyError if it does not exist."""

    def _bytes(self, name: str) -> bytes:
        return self._member(self._inside + name)


class Zip(Archive):
    """Members of a zip archive."""

    def __init__(self, path: Path, inside: str = ""):
        super().__init__(path, inside)
        try:
            with zipfile.ZipFile(path) as archive:
                members = [info for info in archive.infolist() if not info.is_dir()]
        except _READ_ERRORS as error:
            raise ValueError(f"'{path}': Expected a zip archive ({error})") from error
        for info in members:
            check_member_name(path, info.filename)
        self._stored = {_normalized(info.filename): info.filename for info in members}
        self._names = self._stored.keys()

    def _member(self, name: str) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            info = archive.getinfo(self._stored[name])
            check_member_size(self.path, name, info.file_size)
            # zipfile bounds the output of deflate only.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("it is neither stored nor deflated")
            with archive.open(info) as file:
                # read() without a size inflates the whole member, whatever size it claims.
                content = file.read(info.file_size + 1)
        if len(content) != info.file_size:
            raise zipfile.BadZipFile(f"{len(content)} of {info.file_size} bytes")
        return content


class Tar(Archive):
    """Members of a tar archive; those of a compressed one are held in memory."""

    def __init__(self, path: Path, inside: str = ""):
        super().__init__(path, inside)
        self._place: dict[str, tuple[int, int]] = {}  # offset and size
        self._names = self._place.keys()
        self._held: dict[str, bytes] = {}
        try:
            stream, compressed = _open_stream(path)
            bounded = _BoundedStream(path, stream)
            with stream, tarfile.open(fileobj=bounded, mode="r:") as archive:
                self._index(archive, bounded, compressed)
                stream.read(1 << 20)  # to its end, where the checksum of gzip is
        except _READ_ERRORS as error:
            raise ValueError(f"'{path}': Expected a tar archive ({error})") from error

    def _index(self, archive: tarfile.TarFile, stream: _BoundedStream, compressed: bool) -> None:
        held = count = 0
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # or every header is kept
            stream.seek(stream.tell())  # tarfile seeks after files with content only
            count += 1
            if count > _MAX_FILES:
                raise ValueError(f"'{self.path}': Expected at most {_MAX_FILES:,} files (got more)")
            name = _normalized(member.name)
            if member.isdir() and not name and not member.name.startswith("/"):
                continue  # the "." of `tar cf x.tar .`
            check_member_name(self.path, member.name)
            if not member.isreg() or member.issparse() or not name.startswith(self._inside):
                continue
            check_member_size(self.path, name, member.size)
            self._place[name] = (member.offset_data, member.size)
            if compressed:  # random access would decompress from the start each time
                held += member.size
                if held > _MAX_HELD:
                    raise ValueError(
                        f"'{self.path}': Expected at most {_MAX_HELD:,} bytes of files in a "
                        "compressed archive (got more); decompress it"
                    )
                file = archive.extractfile(member)
                self._held[name] = file.read() if file else b""

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


class _BoundedStream(io.RawIOBase):
    """A stream that refuses reads and positions beyond the limits of an archive.

    tarfile reads extended headers (long names, pax) whole, at any size that they claim: in one
    read, or in newer versions of Python in pieces, which are counted until the next seek.
    """

    def __init__(self, path: Path, stream: BinaryIO):
        self._path, self._stream = path, stream
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        self._count += size
        if size < 0 or self._count > _MAX_FILE:
            raise ValueError(
                f"'{self._path}': Expected headers of a few bytes (got {self._count:,})"
            )
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._check(offset)
        self._count = 0
        return self._stream.seek(offset, whence)

    def _check(self, position: int) -> None:
        if position > _MAX_STREAM:
            raise ValueError(
                f"'{self._path}': Expected an archive of at most {_MAX_STREAM:,} bytes (got more)"
            )

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def _open_stream(path: Path) -> tuple[BinaryIO, bool]:
    """Open a file, decompressed according to its magic number; return whether it was compressed."""
    with open(path, "rb") as file:
        start = file.read(6)
    for magic, opener in _COMPRESSIONS.items():
        if start.startswith(magic):
            return opener(path, "rb"), True
    return open(path, "rb"), False


def open_files(path: Path, inside: str = "") -> Files:
    """Return the files of a folder, or of an archive by its suffix."""
    if path.is_dir():
        return Folder(path)
    return Tar(path, inside) if path.name.endswith(_TAR_SUFFIXES) else Zip(path, inside)


def _stems(names: Iterable[str], suffix: str) -> list[str]:
    """Return the sorted names, without ``suffix``, that have it and are not hidden."""
    found = (name for name in names if name.endswith(suffix) and not name.startswith("."))
    return sorted({name.removesuffix(suffix) for name in found})


def _normalized(name: str) -> str:
    """Return a name without "./" and doubled slashes; empty for the top folder."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def check_member_name(path: Path, name: str) -> None:
    """Raise if a name would leave the folder or archive."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise ValueError(f"'{path}': Expected names of files within it (got {name!r})")


def check_member_size(path: Path, name: str, size: int) -> None:
    """Raise if a file is larger than any image of a dataset."""
    if size > _MAX_FILE:
        raise ValueError(
            f"'{path}': Expected '{name}' of at most {_MAX_FILE:,} bytes (got {size:,})"
        )
