# SPDX-License-Identifier: Apache-2.0
"""The calls of a case through libspate.so, the C API. It has the same methods as OsFrontend."""
import ctypes
import os

OFF, MODE, SIZE = ctypes.c_int64, ctypes.c_uint32, ctypes.c_size_t
P, TEXT, INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
SIGNATURES = {
    "connect": (INT, [P, TEXT, P]), "open": (INT, [P, TEXT, INT, MODE, P]), "close": (INT, [P]),
    "pread": (OFF, [P, P, SIZE, OFF]), "pwrite": (OFF, [P, P, SIZE, OFF]), "read": (OFF, [P, P, SIZE]),
    "write": (OFF, [P, P, SIZE]), "lseek": (OFF, [P, OFF, INT]), "ftruncate": (INT, [P, OFF]), "fsync": (INT, [P]),
    "fallocate": (INT, [P, INT, OFF, OFF]), "copy_file_range": (OFF, [P, P, P, P, SIZE, ctypes.c_uint]),
    "fstat": (INT, [P, P]), "fchmod": (INT, [P, MODE]), "stat": (INT, [P, TEXT, P]), "lstat": (INT, [P, TEXT, P]),
    "access": (INT, [P, TEXT, INT]), "mkdir": (INT, [P, TEXT, MODE]), "rmdir": (INT, [P, TEXT]), "unlink": (INT, [P, TEXT]),
    "symlink": (INT, [P, TEXT, TEXT]), "readlink": (OFF, [P, TEXT, P, SIZE]), "link": (INT, [P, TEXT, TEXT]),
    "rename": (INT, [P, TEXT, TEXT, ctypes.c_uint]), "truncate": (INT, [P, TEXT, OFF]), "chmod": (INT, [P, TEXT, MODE]),
    "chown": (INT, [P, TEXT, MODE, MODE, INT]), "utimens": (INT, [P, TEXT, P, INT]), "readdir": (INT, [P, P]),
    "setxattr": (INT, [P, TEXT, TEXT, P, SIZE, INT]), "getxattr": (OFF, [P, TEXT, TEXT, P, SIZE, INT]),
    "listxattr": (OFF, [P, TEXT, P, SIZE, INT]), "removexattr": (INT, [P, TEXT, TEXT]),
}


class Timespec(ctypes.Structure):
    _fields_ = [("sec", OFF), ("nsec", OFF)]


class Stat(ctypes.Structure):
    """struct stat of x86-64."""
    _fields_ = [("dev", ctypes.c_uint64), ("st_ino", ctypes.c_uint64), ("st_nlink", ctypes.c_uint64), ("st_mode", ctypes.c_uint32),
                ("st_uid", ctypes.c_uint32), ("st_gid", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("st_rdev", ctypes.c_uint64),
                ("st_size", OFF), ("blksize", OFF), ("blocks", OFF), ("atim", Timespec), ("mtim", Timespec), ("ctim", Timespec),
                ("rest", OFF * 3)]

    st_atime_ns = property(lambda s: s.atim.sec * 10**9 + s.atim.nsec)
    st_mtime_ns = property(lambda s: s.mtim.sec * 10**9 + s.mtim.nsec)
    st_ctime_ns = property(lambda s: s.ctim.sec * 10**9 + s.ctim.nsec)


class Options(ctypes.Structure):
    _fields_ = [("size", SIZE), ("flags", ctypes.c_uint), ("umask", MODE), ("settings", P)]


class Entry(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_uint64), ("next", ctypes.c_uint64), ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]


class NativeFrontend:
    def __init__(self, root, library):
        self.root = root
        self.library = ctypes.CDLL(library)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.library, "spate_" + name)
            function.restype, function.argtypes = result, arguments
        self.files, self.next, self.mask = {}, 3, 0o022
        self.fs = None

    def umask(self, mask):
        """Must come before the first call that contacts the servers."""
        self.mask = mask

    def connection(self):
        if self.fs is None:
            options = Options(ctypes.sizeof(Options), 0, self.mask, None)
            fs = ctypes.c_void_p()
            self.checked(self.library.spate_connect(ctypes.byref(fs), None, ctypes.byref(options)))
            self.fs = fs
        return self.fs

    @staticmethod
    def checked(result):
        if result < 0:
            raise OSError(-result, "")
        return result

    def on_path(self, name, path, *rest):
        function = getattr(self.library, "spate_" + name)
        return self.checked(function(self.connection(), os.fsencode(self.root + path), *rest))

    def on_file(self, name, fd, *rest):
        if fd not in self.files:
            raise OSError(9, "")
        return self.checked(getattr(self.library, "spate_" + name)(self.files[fd], *rest))

    def open(self, path, flags, mode=0):
        out = ctypes.c_void_p()
        self.on_path("open", path, flags, mode, ctypes.byref(out))
        self.next += 1
        self.files[self.next] = out
        return self.next

    def close(self, fd):
        handle = self.files.pop(fd)
        self.checked(self.library.spate_close(handle))

    def pread(self, fd, size, offset):
        room = ctypes.create_string_buffer(max(size, 1))
        size = self.on_file("pread", fd, room, size, offset)
        return room.raw[:size]

    def read(self, fd, size):
        room = ctypes.create_string_buffer(max(size, 1))
        size = self.on_file("read", fd, room, size)
        return room.raw[:size]

    def pwrite(self, fd, data, offset):
        return self.on_file("pwrite", fd, data, len(data), offset)

    def write(self, fd, data):
        return self.on_file("write", fd, data, len(data))

    def lseek(self, fd, offset, whence):
        return self.on_file("lseek", fd, offset, whence)

    def ftruncate(self, fd, size):
        self.on_file("ftruncate", fd, size)

    def fsync(self, fd):
        self.on_file("fsync", fd)

    def fchmod(self, fd, mode):
        self.on_file("fchmod", fd, mode)

    def fallocate(self, fd, mode, offset, size):
        return self.on_file("fallocate", fd, mode, offset, size)

    def copy_file_range(self, source, source_offset, target, target_offset, size):
        if source not in self.files or target not in self.files:
            raise OSError(9, "")
        offsets = [None if o is None else ctypes.byref(OFF(o)) for o in (source_offset, target_offset)]
        return self.checked(self.library.spate_copy_file_range(self.files[source], offsets[0], self.files[target], offsets[1], size, 0))

    def fstat(self, fd):
        st = Stat()
        self.on_file("fstat", fd, ctypes.byref(st))
        return st

    def stat(self, path, call="stat"):
        st = Stat()
        self.on_path(call, path, ctypes.byref(st))
        return st

    def lstat(self, path):
        return self.stat(path, "lstat")

    def access(self, path, wanted):
        return self.on_path("access", path, wanted)

    def mkdir(self, path, mode):
        self.on_path("mkdir", path, mode)

    def rmdir(self, path):
        self.on_path("rmdir", path)

    def unlink(self, path):
        self.on_path("unlink", path)

    def symlink(self, target, path):
        self.checked(self.library.spate_symlink(self.connection(), os.fsencode(target), os.fsencode(self.root + path)))

    def readlink(self, path):
        room = ctypes.create_string_buffer(5000)
        size = self.on_path("readlink", path, room, 4999)
        return os.fsdecode(room.raw[:size])

    def two_paths(self, name, first, second, *rest):
        function = getattr(self.library, "spate_" + name)
        self.checked(function(self.connection(), os.fsencode(self.root + first), os.fsencode(self.root + second), *rest))

    def link(self, existing, path):
        self.two_paths("link", existing, path)

    def rename(self, source, target, flags=0):
        self.two_paths("rename", source, target, flags)

    def truncate(self, path, size):
        self.on_path("truncate", path, size)

    def chmod(self, path, mode):
        self.on_path("chmod", path, mode)

    def chown(self, path, uid, gid):
        self.on_path("chown", path, uid & 0xFFFFFFFF, gid & 0xFFFFFFFF, 0)

    def utimens(self, path, atime_ns, mtime_ns):
        times = (Timespec * 2)(Timespec(*divmod(atime_ns, 10**9)), Timespec(*divmod(mtime_ns, 10**9)))
        self.on_path("utimens", path, times, 0)

    def listdir(self, path):
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        names, entry = [], Entry()
        while self.on_file("readdir", fd, ctypes.byref(entry)) == 1:
            names.append(os.fsdecode(entry.name))
        self.close(fd)
        return sorted(set(names) - {".", ".."})

    def setxattr(self, path, name, value, flags=0):
        self.on_path("setxattr", path, name.encode(), value, len(value), flags)

    def getxattr(self, path, name):
        room = ctypes.create_string_buffer(65536)
        size = self.on_path("getxattr", path, name.encode(), room, 65536, 0)
        return room.raw[:size]

    def listxattr(self, path):
        room = ctypes.create_string_buffer(65536)
        size = self.on_path("listxattr", path, room, 65536, 0)
        return sorted(n.decode() for n in room.raw[:size].split(b"\0") if n)

    def removexattr(self, path, name):
        self.on_path("removexattr", path, name.encode())
