# SPDX-License-Identifier: Apache-2.0
"""FileSystem: the calls of the extension module, and functions that are built on them."""
from __future__ import annotations

import atexit
import math
import os
import posixpath
import stat
import weakref
from typing import IO, TYPE_CHECKING, Any, Iterator, NamedTuple

from . import _files, _spate
from ._patterns import Layout

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath as Path

_DT_DIR = 4  # of readdir(3)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_COPY_BYTES = 64 << 20  # of one copy_file_range, so that Ctrl-C is heard in between


class DirEntry(NamedTuple):
    """A name in a directory, and the attributes of the object that it names (of a symbolic link itself, not of its target)."""

    name: str
    path: str
    stat: os.stat_result

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)

    def is_file(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.stat.st_mode)


class FileSystem(_spate.FileSystem):
    """A session. Paths begin at the file system's root, with or without a leading "/". Names are those of the module os.

    The end of a `with` block, close() or the program's end ends the session as soon as its last file is closed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _sessions.add(self)

    def open(self, path: Path, mode: str = "r", buffering: int = -1, *, layout: Layout | None = None,
             encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> IO[Any]:
        """As the builtin open(). `layout`: for a file that the call creates."""
        if "b" in mode and (encoding, errors, newline) != (None, None, None):
            raise ValueError("binary mode takes no encoding, errors or newline")
        flags = _files.flags_of(mode)
        file = self.open_file(path, flags, 0o666, layout)
        text = {} if "b" in mode else {"encoding": encoding, "errors": errors, "newline": newline}
        try:
            return _files.opened(file, flags, mode, buffering, os.fsdecode(path), **text)
        except BaseException:
            file.close()
            raise

    def lstat(self, path: Path) -> os.stat_result:
        """The attributes of an object. If it is a symbolic link: of the link itself."""
        return self.stat(path, follow_symlinks=False)

    def utime(self, path: Path, times: tuple[float, float] | None = None, *, ns: tuple[int, int] | None = None,
              follow_symlinks: bool = True) -> None:
        """As os.utime(): sets the times of access and change, by `times` in seconds or by `ns` in nanoseconds; with neither, to
        now."""
        if times is not None:
            if ns is not None:
                raise ValueError("utime takes times or ns, not both")
            atime, mtime = times
            ns = _nanoseconds(atime), _nanoseconds(mtime)
        super().utime(path, ns=ns, follow_symlinks=follow_symlinks)

    def remove(self, path: Path) -> None:
        """As unlink()."""
        self.unlink(path)

    def replace(self, source: Path, target: Path) -> None:
        """As rename(), which replaces a file as well."""
        self.rename(source, target)

    def statvfs(self, path: Path | None = None) -> os.statvfs_result:
        """Size and free space of all servers. They are the same for every path; it is an error if there is nothing at `path`."""
        if path is not None:
            self.stat(path)
        return super().statvfs()

    def exists(self, path: Path) -> bool:
        """Whether the path leads to an object. A symbolic link that leads nowhere does not count."""
        return self._mode(path) is not None

    def isdir(self, path: Path) -> bool:
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def isfile(self, path: Path) -> bool:
        mode = self._mode(path)
        return mode is not None and stat.S_ISREG(mode)

    def _mode(self, path: Path) -> int | None:
        try:
            return self.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None

    def scandir(self, path: Path = "/") -> Iterator[DirEntry]:
        """The entries of a directory with their attributes. One request fetches some hundreds of them."""
        base = os.fsdecode(path)
        with self.open_file(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
            while entries := directory.read_entries():
                for name, _inode, _type, known in entries:
                    full = posixpath.join(base, name)
                    try:
                        yield DirEntry(name, full, known or self.lstat(full))
                    except FileNotFoundError:
                        pass  # removed meanwhile

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory, in any order."""
        with self.open_file(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
            names: list[str] = []
            while entries := directory.read_entries():
                names += [entry[0] for entry in entries]
            return names

    def walk(self, top: Path = "/") -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk(), from the top down. A symbolic link to a directory is among the directories, and is not followed. An error
        ends the walk."""
        base = os.fsdecode(top)
        folders: list[str] = []
        files: list[str] = []
        links: set[str] = set()
        for entry in self.scandir(base):
            if entry.is_symlink() and self.isdir(entry.path):
                links.add(entry.name)
            (folders if entry.is_dir() or entry.name in links else files).append(entry.name)
        yield base, folders, files
        for name in folders:
            if name not in links:
                yield from self.walk(posixpath.join(base, name))

    def makedirs(self, path: Path, mode: int = 0o777, exist_ok: bool = False) -> None:
        """Makes a directory, and the missing directories above it."""
        try:
            self.mkdir(path, mode)
        except FileNotFoundError:
            parent = posixpath.dirname(os.fsdecode(path).rstrip("/"))
            if parent in ("", "/"):
                raise
            self.makedirs(parent, mode, exist_ok=True)
            self.makedirs(path, mode, exist_ok)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def rmtree(self, path: Path) -> None:
        """Removes a directory and its contents; OSError for a symbolic link to one. It follows no link, not even one that takes
        the place of a directory meanwhile. Objects that others remove meanwhile are no error."""
        name = os.fsdecode(path)
        name = name.rstrip("/") or name  # "link/" would be what the link leads to
        with self.open_file(name, _DIRECTORY) as directory:
            _remove_entries(directory)
        try:
            self.rmdir(name)
        except FileNotFoundError:
            pass

    def copy(self, source: Path, target: Path) -> None:
        """Copies a file's bytes, as shutil.copyfile() does. The servers copy if both files have the same layout. `target` names a
        file, whose contents are replaced if it exists. Mode and attributes are not copied."""
        with self.open_file(source) as read, self.open_file(target, os.O_RDWR | os.O_CREAT) as written:
            if read.stat().st_ino == written.stat().st_ino:
                raise ValueError("%s and %s are the same file" % (os.fsdecode(source), os.fsdecode(target)))
            written.truncate(0)
            at = 0
            while copied := read.copy_range(written, _COPY_BYTES, at, at):
                at += copied


def _nanoseconds(seconds: float) -> int:
    """An integer is exact; a fraction is rounded down, as os.utime() does."""
    whole = math.floor(seconds)
    return whole * 1_000_000_000 + math.floor((seconds - whole) * 1e9)


def _remove_entries(directory: _spate.File) -> None:
    """By the open directory itself, so that what takes its name meanwhile is left alone."""
    while entries := directory.read_entries():
        for name, _inode, kind, _known in entries:
            try:
                if kind != _DT_DIR:
                    directory.unlink_at(name)
                    continue
                with directory.open_at(name, _DIRECTORY) as below:
                    _remove_entries(below)
                directory.unlink_at(name, directory=True)
            except FileNotFoundError:
                pass


_sessions: weakref.WeakSet[FileSystem] = weakref.WeakSet()


# A session that a program leaves open keeps its locks and leases until they expire.
@atexit.register
def _close_all() -> None:
    for session in list(_sessions):
        session.close()


def connect(where: Path | None = None, **options: Any) -> FileSystem:
    """Opens a session. `where`: the spate.toml, or the folder that holds one; None: the environment's SPATE_FS, else the file
    system that `spate up` started last. Options: settings={"client.deadline": "5s"} override spate.toml; umask=0o022;
    progress_thread=True: started operations continue while no thread waits for them."""
    return FileSystem(where, **options)
