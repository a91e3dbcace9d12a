# SPDX-License-Identifier: Apache-2.0
"""Spate for asyncio.

    from spate import aio

    async with aio.connect() as fs:
        async with await fs.open_file("/data") as file:
            parts = await asyncio.gather(*(file.pread(1 << 20, at << 20) for at in range(16)))

Each call runs on a thread of the session, without Python's global lock. At most `in_flight` calls run at once, and others
wait for their turn. A task that is cancelled stops waiting. If its call runs already, the call continues to its end; if the
call still waits for its turn, it is not made. close() waits for the calls that run.
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import os
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _spate
from ._file_system import DirEntry, FileSystem
from ._patterns import Layout, Strided

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrOrBytesPath, WriteableBuffer

_T = TypeVar("_T")


class AsyncFile:
    """An open file. Its attribute `file` has the blocking calls."""

    def __init__(self, session: AsyncFileSystem, file: _spate.File) -> None:
        self._session = session
        self._calls: set[concurrent.futures.Future[Any]] = set()  # calls that have not ended
        self.file = file

    async def _run(self, call: Callable[..., _T], /, *args: Any) -> _T:
        started = self._session.start(call, *args)
        self._calls.add(started)
        started.add_done_callback(self._calls.discard)
        return await asyncio.wrap_future(started)

    async def pread(self, size: int, offset: int) -> bytes:
        return await self._run(self.file.pread, size, offset)

    async def pread_into(self, buffer: WriteableBuffer, offset: int) -> int:
        return await self._run(self.file.pread_into, buffer, offset)

    async def pwrite(self, data: ReadableBuffer, offset: int) -> int:
        return await self._run(self.file.pwrite, data, offset)

    async def read_list(self, ranges: list[tuple[int, int]], buffer: WriteableBuffer) -> int:
        return await self._run(self.file.read_list, ranges, buffer)

    async def write_list(self, ranges: list[tuple[int, int]], data: ReadableBuffer) -> int:
        return await self._run(self.file.write_list, ranges, data)

    async def read_strided(self, pattern: Strided, buffer: WriteableBuffer) -> int:
        return await self._run(self.file.read_strided, pattern, buffer)

    async def write_strided(self, pattern: Strided, data: ReadableBuffer) -> int:
        return await self._run(self.file.write_strided, pattern, data)

    async def stat(self) -> os.stat_result:
        return await self._run(self.file.stat)

    async def fsync(self) -> None:
        await self._run(self.file.fsync)

    async def truncate(self, size: int) -> None:
        await self._run(self.file.truncate, size)

    async def close(self) -> None:
        """Closes the file after all its running calls, also those that no task waits for. Goes on even if this task is cancelled."""
        await asyncio.shield(self._close())

    async def _close(self) -> None:
        calls = [asyncio.wrap_future(call) for call in list(self._calls)]
        await asyncio.gather(*calls, return_exceptions=True)
        await self._run(self.file.close)

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(self, *_args: object) -> None:
        await self.close()


class AsyncFileSystem:
    """A session. Its attribute `fs` has the blocking calls."""

    def __init__(self, fs: FileSystem, in_flight: int = 16) -> None:
        self.fs = fs
        self._threads = concurrent.futures.ThreadPoolExecutor(in_flight, "spate")

    async def run(self, call: Callable[..., _T], /, *args: Any, **options: Any) -> _T:
        """Makes any call of `fs` or of a file; only this task waits for it: await fs.run(fs.fs.rename, "/a", "/b")."""
        return await asyncio.wrap_future(self.start(call, *args, **options))

    def start(self, call: Callable[..., _T], /, *args: Any, **options: Any) -> concurrent.futures.Future[_T]:
        """As run(), for a program that waits by other means."""
        return self._threads.submit(call, *args, **options)

    async def open_file(self, path: StrOrBytesPath, flags: int = os.O_RDONLY, mode: int = 0o666, layout: Layout | None = None) -> AsyncFile:
        return AsyncFile(self, await self.run(self.fs.open_file, path, flags, mode, layout))

    async def read_bytes(self, path: StrOrBytesPath) -> bytes:
        """Reads the whole file."""
        return await self.run(_read, self.fs, path)

    async def write_bytes(self, path: StrOrBytesPath, data: ReadableBuffer) -> None:
        """Makes a file with these bytes, or replaces its contents by them."""
        await self.run(_write, self.fs, path, data)

    async def stat(self, path: StrOrBytesPath, *, follow_symlinks: bool = True) -> os.stat_result:
        return await self.run(self.fs.stat, path, follow_symlinks=follow_symlinks)

    async def exists(self, path: StrOrBytesPath) -> bool:
        return await self.run(self.fs.exists, path)

    async def scandir(self, path: StrOrBytesPath = "/") -> list[DirEntry]:
        return await self.run(lambda: list(self.fs.scandir(path)))

    async def listdir(self, path: StrOrBytesPath = "/") -> list[str]:
        return await self.run(self.fs.listdir, path)

    async def mkdir(self, path: StrOrBytesPath, mode: int = 0o777) -> None:
        await self.run(self.fs.mkdir, path, mode)

    async def makedirs(self, path: StrOrBytesPath, mode: int = 0o777, exist_ok: bool = False) -> None:
        await self.run(self.fs.makedirs, path, mode, exist_ok)

    async def unlink(self, path: StrOrBytesPath) -> None:
        await self.run(self.fs.unlink, path)

    async def rmdir(self, path: StrOrBytesPath) -> None:
        await self.run(self.fs.rmdir, path)

    async def rmtree(self, path: StrOrBytesPath) -> None:
        await self.run(self.fs.rmtree, path)

    async def rename(self, source: StrOrBytesPath, target: StrOrBytesPath) -> None:
        await self.run(self.fs.rename, source, target)

    async def close(self) -> None:
        """Waits for running calls, and ends the session after its last file. Goes on even if this task is cancelled."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._close))

    def _close(self) -> None:
        self._threads.shutdown()
        self.fs.close()

    async def __aenter__(self) -> AsyncFileSystem:
        return self

    async def __aexit__(self, *_args: object) -> None:
        await self.close()


def _read(fs: FileSystem, path: StrOrBytesPath) -> bytes:
    with fs.open(path, "rb", 0) as file:
        return bytes(file.read())


def _write(fs: FileSystem, path: StrOrBytesPath, data: ReadableBuffer) -> None:
    with fs.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.pwrite(data, 0)


def connect(where: StrOrBytesPath | None = None, *, in_flight: int = 16, **options: Any) -> AsyncFileSystem:
    """As spate.connect(). in_flight: the most calls that run at once."""
    return AsyncFileSystem(FileSystem(where, **options), in_flight)
