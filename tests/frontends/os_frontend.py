# SPDX-License-Identifier: Apache-2.0
"""The calls of a case through the kernel's interface: on a local folder, on a mount, or below `spate run`."""
import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
LIBC.renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
AT_FDCWD = -100


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


class OsFrontend:
    """Paths begin with "/", which stands for the folder. A call that fails raises OSError."""

    def __init__(self, root):
        self.root = root
        self.close, self.pread, self.pwrite = os.close, os.pread, os.pwrite
        self.read, self.write, self.lseek = os.read, os.write, os.lseek
        self.ftruncate, self.fsync, self.fstat, self.fchmod = os.ftruncate, os.fsync, os.fstat, os.fchmod

    def at(self, path):
        return self.root + path

    def umask(self, mask):
        os.umask(mask)

    def open(self, path, flags, mode=0):
        return os.open(self.at(path), flags, mode)

    def fallocate(self, fd, mode, offset, size):
        return checked(LIBC.fallocate(fd, mode, offset, size))

    def copy_file_range(self, source, source_offset, target, target_offset, size):
        return os.copy_file_range(source, target, size, source_offset, target_offset)

    def stat(self, path):
        return os.stat(self.at(path))

    def lstat(self, path):
        return os.lstat(self.at(path))

    def access(self, path, wanted):
        # os.access() returns only yes or no, and faccessat with AT_EACCESS would not ask the file system.
        if LIBC.access(os.fsencode(self.at(path)), wanted) != 0:
            raise OSError(ctypes.get_errno(), "")
        return 0

    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    def rmdir(self, path):
        os.rmdir(self.at(path))

    def unlink(self, path):
        os.unlink(self.at(path))

    def symlink(self, target, path):
        os.symlink(target, self.at(path))

    def readlink(self, path):
        return os.readlink(self.at(path))

    def link(self, existing, path):
        os.link(self.at(existing), self.at(path), follow_symlinks=False)

    def rename(self, source, target, flags=0):
        checked(LIBC.renameat2(AT_FDCWD, os.fsencode(self.at(source)), AT_FDCWD, os.fsencode(self.at(target)), flags))

    def truncate(self, path, size):
        os.truncate(self.at(path), size)

    def chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def chown(self, path, uid, gid):
        os.chown(self.at(path), uid, gid)

    def utimens(self, path, atime_ns, mtime_ns):
        os.utime(self.at(path), ns=(atime_ns, mtime_ns))

    def listdir(self, path):
        return sorted(os.listdir(self.at(path)))

    def setxattr(self, path, name, value, flags=0):
        os.setxattr(self.at(path), name, value, flags)

    def getxattr(self, path, name):
        return os.getxattr(self.at(path), name)

    def listxattr(self, path):
        return sorted(os.listxattr(self.at(path)))

    def removexattr(self, path, name):
        os.removexattr(self.at(path), name)
