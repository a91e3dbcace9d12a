#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens files by handles from another mount of the same file system, so that this kernel has never looked up their
names: handles.py GIVES OPENS"""
import ctypes
import errno
import os
import sys

GIVES, OPENS = sys.argv[1], sys.argv[2]
AT_FDCWD, AT_HANDLE_CONNECTABLE = -100, 0x2
libc = ctypes.CDLL(None, use_errno=True)


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]


def handle_of(path, flags=0):
    handle, mount = Handle(bytes=128), ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return handle


def opened(mount, handle, flags):
    file = libc.open_by_handle_at(mount, ctypes.byref(handle), flags)
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file


def is_stale(mount, handle):
    try:
        os.close(opened(mount, handle, os.O_RDONLY))
    except OSError as error:
        return error.errno == errno.ESTALE
    return False


def main():
    os.makedirs(f"{GIVES}/a/b/c")
    for name in "file", "gone":
        with open(f"{GIVES}/a/b/{name}", "w", encoding="ascii") as file:
            file.write(name)
    os.symlink("file", f"{GIVES}/a/b/link")
    handles = {name: handle_of(f"{GIVES}/a/b/{name}") for name in ("file", "gone", "c", "link", ".", "..")}
    os.unlink(f"{GIVES}/a/b/gone")
    mount = os.open(OPENS, os.O_RDONLY)
    file = opened(mount, handles["file"], os.O_RDWR)
    assert (got := os.pread(file, 10, 0)) == b"file", got
    os.pwrite(file, b"more", 4)
    assert (got := os.stat(f"{GIVES}/a/b/file").st_size) == 8, got
    os.close(file)
    # For a directory the kernel looks up parents until it finds names that it knows. Then it knows the path.
    directory = opened(mount, handles["c"], os.O_RDONLY)
    assert (got := os.readlink(f"/proc/self/fd/{directory}")) == f"{OPENS}/a/b/c", got
    for name in ".", "..":
        assert (got := os.fstat(opened(mount, handles[name], os.O_RDONLY)).st_ino) == os.stat(f"{GIVES}/a/b/{name}").st_ino, got
    link = opened(mount, handles["link"], os.O_PATH | os.O_NOFOLLOW)
    assert (got := os.readlink("", dir_fd=link)) == "file", got
    assert is_stale(mount, handles["gone"]), "a removed file is opened, or another error"
    os.unlink(f"{GIVES}/a/b/file")
    assert is_stale(mount, handles["file"]), "a file is opened that is removed since"


main()
