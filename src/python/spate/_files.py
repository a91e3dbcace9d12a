# SPDX-License-Identifier: Apache-2.0
"""Files in the form of Python's io module."""
from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Any, cast

from ._spate import File

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}


def flags_of(mode: str) -> int:
    """The flags of open(2) for a mode of open(): r, w, a or x, with + and b or t."""
    kind = mode.translate({ord(letter): None for letter in "bt+"})
    if kind not in _FLAGS or len(set(mode)) != len(mode) or ("b" in mode and "t" in mode):
        raise ValueError("invalid mode: %r" % mode)
    access = os.O_RDWR if "+" in mode else os.O_RDONLY if kind == "r" else os.O_WRONLY
    return _FLAGS[kind] | access


class RawFile(io.RawIOBase):
    """A file without a buffer of its own. Its attribute `file` has the calls at offsets."""

    def __init__(self, file: File, flags: int, name: str = "") -> None:
        self.file = file
        self.name = name
        self._access = flags & os.O_ACCMODE
        if flags & os.O_APPEND:
            file.seek(0, os.SEEK_END)

    def _open_file(self) -> File:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self.file

    def readable(self) -> bool:
        return self._access != os.O_WRONLY

    def writable(self) -> bool:
        return self._access != os.O_RDONLY

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        file = self._open_file()
        if not self.readable():
            raise io.UnsupportedOperation("not open for reading")
        return file.readinto(buffer)

    def readall(self) -> bytes:
        """All bytes from the position on. Takes one read if the file does not grow meanwhile."""
        file = self._open_file()
        if not self.readable():
            raise io.UnsupportedOperation("not open for reading")
        at = file.seek(0, os.SEEK_CUR)
        parts = []
        while True:
            part = file.pread(max(file.stat().st_size - at, 0) + 1, at)
            at += len(part)
            parts.append(part)
            if not part:
                break
        file.seek(at)
        return parts[0] if len(parts) < 3 else b"".join(parts)

    def write(self, data: ReadableBuffer, /) -> int:
        file = self._open_file()
        if not self.writable():
            raise io.UnsupportedOperation("not open for writing")
        return file.write(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._open_file().seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        file = self._open_file()
        if not self.writable():
            raise io.UnsupportedOperation("not open for writing")
        size = file.seek(0, os.SEEK_CUR) if size is None else size
        file.truncate(size)
        return size

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                self.file.close()


def opened(file: File, flags: int, mode: str, buffering: int, name: str, **text: Any) -> IO[Any]:
    """What open() returns for such a mode."""
    binary = "b" in mode
    if buffering == 0 and not binary:
        raise ValueError("text needs a buffer")
    raw = RawFile(file, flags, name)
    if buffering == 0:
        return cast(IO[Any], raw)
    size = BUFFER_SIZE if buffering < 2 else buffering
    kind = io.BufferedRandom if "+" in mode else io.BufferedReader if raw.readable() else io.BufferedWriter
    buffered = cast(IO[bytes], kind(raw, size))  # typeshed's three have no base in common
    if binary:
        return buffered
    return io.TextIOWrapper(buffered, line_buffering=buffering == 1, **text)


# Larger pieces bypass the buffer. A request costs as much as moving some 100 KiB.
BUFFER_SIZE = 256 << 10
