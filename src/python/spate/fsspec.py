# SPDX-License-Identifier: Apache-2.0
"""fsspec's spate://path. With it pandas, dask, zarr, xarray and pyarrow open files of Spate. See docs/python.md."""
from __future__ import annotations

import contextlib
import datetime
import io
import os
import posixpath
import secrets
import stat
import threading
import weakref
from typing import Any, cast

from fsspec.spec import AbstractFileSystem  # type: ignore[import]
from fsspec.transaction import Transaction  # type: ignore[import]

from . import _files
from ._file_system import FileSystem, connect

_RENAME_NOREPLACE = 1  # of renameat2(2)
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}

# One session for each file system and process, however many threads and instances there are.
_sessions: weakref.WeakValueDictionary[Any, FileSystem] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _forked() -> None:
    """Another thread may have held the lock at the fork. That thread is not in the child, so nothing would release the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def _session(where: str | None, settings: dict[str, str]) -> FileSystem:
    key = (os.getpid(), where, os.environ.get("SPATE_FS"), tuple(sorted(settings.items())))
    with _lock:
        session = _sessions.get(key)
        if session is None or session.closed:
            session = _sessions[key] = connect(where, settings=settings)
        return session


class _File:
    """Functions that fsspec's users expect of an open file, beyond those of the io module."""

    raw: Any
    close: Any
    fs: SpateFileSystem
    path: str
    mode = ""  # hides the mode of io, which cannot be set
    blocksize: int
    autocommit = True
    _temporary: str | None = None

    @property
    def size(self) -> int:
        return int(self.raw.file.stat().st_size)

    @property
    def details(self) -> dict[str, Any]:
        return self.fs.info(self.path)

    full_name = property(lambda self: self.fs.unstrip_protocol(self.path))

    def commit(self) -> None:
        """Gives the written file its name. A transaction calls this. If mode "x" finds that the name is taken, it removes the file
        and raises FileExistsError."""
        try:
            self.close()
            if self._temporary is not None:
                self.fs.native.rename(self._temporary, self.path, _RENAME_NOREPLACE if "x" in self.mode else 0)
        except OSError:
            with contextlib.suppress(OSError):  # the first error is the one to report
                self.discard()
            raise
        self._temporary = None

    def discard(self) -> None:
        """Removes the written file."""
        self.close()
        if self._temporary is not None:
            self.fs.native.unlink(self._temporary)
            self._temporary = None


class _Reader(_File, io.BufferedReader):  # type: ignore[misc]
    pass


class _Writer(_File, io.BufferedWriter):  # type: ignore[misc]
    pass


class _Updater(_File, io.BufferedRandom):  # type: ignore[misc]
    pass


class _Transaction(Transaction):  # type: ignore[misc]
    """Leaves no temporary file, and takes the file system out of the transaction, also after a failure."""

    fs: SpateFileSystem
    files: list[Any]

    def complete(self, commit: bool = True) -> None:
        files, self.files = list(self.files), []
        try:
            while files:
                file = files.pop(0)
                if commit:
                    file.commit()
                else:
                    file.discard()
        finally:
            self.fs._intrans = False
            self.fs._transaction = None
            for file in files:
                with contextlib.suppress(OSError):
                    file.discard()


class SpateFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files of Spate for fsspec.

    where: its spate.toml, or the folder that holds one; None: SPATE_FS, else the last `spate up`. settings: override
    spate.toml. auto_mkdir: a written file gets the directories that its path names, as in an object store. Any thread may use
    an instance. It may be pickled, and used in a forked process."""

    protocol = "spate"
    transaction_type = _Transaction
    _transaction: _Transaction | None
    root_marker = "/"

    def __init__(self, where: str | None = None, settings: dict[str, str] | None = None, auto_mkdir: bool = True, **options: Any) -> None:
        super().__init__(where=where, settings=settings, auto_mkdir=auto_mkdir, **options)
        self.where = where
        self.settings = dict(settings or {})
        self.auto_mkdir = auto_mkdir
        self._connected: tuple[int, FileSystem] | None = None

    @property
    def native(self) -> FileSystem:
        """The session of this process."""
        connected = self._connected
        if connected is None or connected[0] != os.getpid() or connected[1].closed:
            connected = self._connected = (os.getpid(), _session(self.where, self.settings))
        return connected[1]

    # Older versions of fsspec do not look at transaction_type.
    @property
    def transaction(self) -> _Transaction:
        if self._transaction is None:
            self._transaction = _Transaction(self)
        return self._transaction

    def start_transaction(self) -> _Transaction:
        self._transaction = None
        self.transaction.start()
        return self.transaction

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        stripped = super()._strip_protocol(path)
        return "/" + stripped.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        return "spate://" + str(self._strip_protocol(name)).lstrip("/")

    # Looking.
    def info(self, path: Any, **_options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        status = self.native.lstat(path)
        found = _described(path, status)
        if found["islink"]:
            found["destination"] = self.native.readlink(path)
            try:
                found = {**found, **_described(path, self.native.stat(path)), "islink": True}
            except FileNotFoundError:
                found["type"] = "link"
        return found

    def ls(self, path: Any, detail: bool = True, **_options: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            found = [_described(entry.path, entry.stat) for entry in self.native.scandir(path)]
        except NotADirectoryError:
            found = [self.info(path)]
        found.sort(key=lambda one: str(one["name"]))
        return found if detail else [one["name"] for one in found]

    def exists(self, path: Any, **_options: Any) -> bool:
        return self.native.exists(self._strip_protocol(path))

    def lexists(self, path: Any, **_options: Any) -> bool:
        try:
            self.native.lstat(self._strip_protocol(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def isdir(self, path: Any) -> bool:
        return self.native.isdir(self._strip_protocol(path))

    def isfile(self, path: Any) -> bool:
        return self.native.isfile(self._strip_protocol(path))

    def created(self, path: Any) -> datetime.datetime:
        """The time of the inode's last change, because Spate stores no time of creation."""
        return _time(self.native.stat(self._strip_protocol(path)).st_ctime)

    def modified(self, path: Any) -> datetime.datetime:
        return _time(self.native.stat(self._strip_protocol(path)).st_mtime)

    # Names.
    def mkdir(self, path: Any, create_parents: bool = True, **_options: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.native.makedirs(path)
        else:
            self.native.mkdir(path)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        self.native.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: Any) -> None:
        self.native.rmdir(self._strip_protocol(path))

    def rm_file(self, path: Any) -> None:
        self.native.unlink(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            raise NotImplementedError("rm with maxdepth")
        for one in self.expand_path(path):
            if not stat.S_ISDIR(self.native.lstat(one).st_mode):
                self.native.unlink(one)
            elif not recursive:
                raise IsADirectoryError("%s is a directory: recursive=True removes it and all that is in it" % one)
            elif one == "/":
                raise ValueError("the root cannot be removed")
            else:
                self.native.rmtree(one)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """Renames in one step if both arguments are paths. Otherwise copies and removes, as fsspec does."""
        if maxdepth is not None or not (isinstance(path1, str) and isinstance(path2, str)) or not self.lexists(path1):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        into = path2.endswith("/")
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if into or self.native.isdir(target):
            target = posixpath.join(target, posixpath.basename(source))
        self._with_parents(target, lambda: self.native.rename(source, target))

    mv_file = mv

    def cp_file(self, path1: Any, path2: Any, **_options: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.native.isdir(source):
            self.native.makedirs(target, exist_ok=True)
        else:
            self._with_parents(target, lambda: self.native.copy(source, target))

    def touch(self, path: Any, truncate: bool = True, **_options: Any) -> None:
        path = self._strip_protocol(path)
        if truncate or not self.native.exists(path):
            self._with_parents(path, lambda: self.native.open(path, "wb").close())
        else:
            self.native.utime(path)

    # Contents.
    def cat_file(self, path: Any, start: int | None = None, end: int | None = None, **_options: Any) -> bytes:
        with self.native.open_file(self._strip_protocol(path)) as file:
            size = file.stat().st_size
            first, last, _ = slice(start, end).indices(size)
            return file.pread(max(last - first, 0), first)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True,
              cache_options: Any = None, **_options: Any) -> Any:
        flags = _files.flags_of(mode)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        temporary = None
        if writes and not autocommit:
            if "w" not in mode and "x" not in mode:
                raise ValueError("a transaction writes whole files, by mode wb or xb")
            # Only for "x" it matters whether the file exists now.
            if "x" in mode and self.lexists(path):
                raise FileExistsError(path)
            temporary = "%s.%s.tmp" % (path, secrets.token_hex(8))
        file = self._with_parents(path, lambda: self.native.open_file(temporary or path, flags), creates=bool(flags & os.O_CREAT))
        kind = _Updater if "+" in mode else _Writer if writes else _Reader
        size = block_size if isinstance(block_size, int) and block_size > 0 else _files.BUFFER_SIZE
        opened = cast(_File, kind(_files.RawFile(file, flags, path), size))
        opened.fs, opened.path, opened.mode, opened.blocksize = self, path, mode, size
        opened.autocommit, opened._temporary = autocommit, temporary
        return opened

    def _with_parents(self, path: str, make: Any, creates: bool = True) -> Any:
        """Calls make(). If the directories above `path` are missing, makes them and calls make() once more."""
        try:
            return make()
        except FileNotFoundError:
            parent = posixpath.dirname(path)
            if not creates or not self.auto_mkdir or self.native.isdir(parent):
                raise
            self.native.makedirs(parent, exist_ok=True)
            return make()


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)


def _described(path: str, status: os.stat_result) -> dict[str, Any]:
    return {
        "name": path,
        "size": status.st_size,
        "type": _TYPES.get(stat.S_IFMT(status.st_mode), "other"),
        "created": status.st_ctime,
        "mtime": status.st_mtime,
        "mode": status.st_mode,
        "uid": status.st_uid,
        "gid": status.st_gid,
        "ino": status.st_ino,
        "nlink": status.st_nlink,
        "islink": stat.S_ISLNK(status.st_mode),
    }
