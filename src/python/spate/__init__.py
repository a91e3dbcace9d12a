# SPDX-License-Identifier: Apache-2.0
"""Spate, a striped, parallel file system, without a mount.

    import spate

    with spate.connect() as fs:
        with fs.open("/results/a", "w") as file:
            print("hello", file=file)

Failures are OSError and its subclasses, with a sentence that names the server or the file. Any thread may make any call. No
call holds Python's global lock. Buffers go to the servers and come from them without a copy. See docs/python.md.
"""
from ._files import RawFile
from ._file_system import DirEntry, FileSystem, connect
from ._patterns import Layout, Strided, box
from ._spate import File, Operation, __version__

__all__ = ["DirEntry", "File", "FileSystem", "Layout", "Operation", "RawFile", "Strided", "__version__", "box", "connect"]
