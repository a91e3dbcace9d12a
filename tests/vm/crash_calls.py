# SPDX-License-Identifier: Apache-2.0
"""The calls of libspate that crash_worker.py makes. A failed one raises OSError."""
import ctypes
import os
import select
import sys

PROGRESS_THREAD = 1
NAMES_AT_ONCE = 100


class Crashed(Exception):
    """Servers crashed before the call has ended: nobody knows whether it was made before or after."""


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("flags", ctypes.c_uint), ("umask", ctypes.c_uint), ("settings", ctypes.c_void_p)]


class Layout(ctypes.Structure):
    _fields_ = [("strip_bytes", ctypes.c_uint64), ("target_count", ctypes.c_uint32), ("first_target", ctypes.c_uint32),
                ("distribution", ctypes.c_char_p)]


class Entry(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_uint64), ("next", ctypes.c_uint64), ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]


class Calls:
    """While `watching`, a call that has ended raises Crashed if there is a line on the standard input."""

    watching = False

    def __init__(self):
        self.library = ctypes.CDLL(os.path.join(os.environ["SPATE_BIN"], "../src/capi/libspate.so"))
        self.library.spate_last_error.restype = ctypes.c_char_p

    def __getattr__(self, name):
        call = getattr(self.library, "spate_" + name)
        call.restype = ctypes.c_ssize_t if name in ("pread", "pwrite", "readdir_many") else ctypes.c_int

        def checked(*arguments):
            result = call(*arguments)
            if Calls.watching and select.select([sys.stdin], [], [], 0)[0]:
                raise Crashed
            if result < 0:
                raise OSError(-result, "spate_%s: %s (%s)" % (name, os.strerror(-result), self.library.spate_last_error().decode()))
            return result
        return checked


class File:
    def __init__(self, fs, handle):
        self.fs, self.calls, self.handle = fs, fs.calls, handle
        fs.files.append(self)

    def write(self, offset, data):
        written = self.calls.pwrite(self.handle, data, ctypes.c_size_t(len(data)), ctypes.c_long(offset))
        if written != len(data):
            raise AssertionError("a write of %d bytes wrote %d" % (len(data), written))

    def read(self, offset, size):
        data = ctypes.create_string_buffer(size)
        count = self.calls.pread(self.handle, data, ctypes.c_size_t(size), ctypes.c_long(offset))
        return data.raw[:count]

    def sync(self):
        self.calls.fsync(self.handle)

    def close(self):
        self.fs.files.remove(self)
        self.calls.close(self.handle)

    def names(self):
        entries, found = (Entry * NAMES_AT_ONCE)(), []
        while count := self.calls.readdir_many(self.handle, entries, None, ctypes.c_size_t(NAMES_AT_ONCE)):
            found += [entry.name.decode() for entry in entries[:count]]
        return set(found) - {".", ".."}

    def first_target(self):
        layout = Layout()
        self.calls.get_layout(self.handle, ctypes.byref(layout))
        return layout.first_target


class FileSystem:
    def __init__(self, where):
        self.calls, self.handle, self.files = Calls(), ctypes.c_void_p(), []
        options = Options(ctypes.sizeof(Options), PROGRESS_THREAD, 0, None)
        self.calls.connect(ctypes.byref(self.handle), where.encode(), ctypes.byref(options))

    def open(self, path, flags, layout=None):
        handle = ctypes.c_void_p()
        try:
            self.calls.open_layout(self.handle, path.encode(), flags, 0o644, layout and ctypes.byref(layout), ctypes.byref(handle))
        except Crashed:
            if handle:
                File(self, handle)  # disconnect() closes it
            raise
        return File(self, handle)

    def mkdir(self, path):
        self.calls.mkdir(self.handle, path.encode(), 0o755)

    def unlink(self, path):
        self.calls.unlink(self.handle, path.encode())

    def rename(self, path, to):
        self.calls.rename(self.handle, path.encode(), to.encode(), 0)

    def disconnect(self):
        """Closes all files, too. Such a close may fail: the crash may have taken a file that was just being made."""
        for file in list(self.files):
            try:
                file.close()
            except OSError as error:
                print("closed at the end: %s" % error, file=sys.stderr)
        self.calls.disconnect(self.handle)
