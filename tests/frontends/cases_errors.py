# SPDX-License-Identifier: Apache-2.0
"""Errors that the other groups do not produce: descriptors that are closed or opened in the wrong mode, objects that a
user may not reach, change or remove, offsets and names that are too large."""
import os

from cases_acl import ALICE, BOB, as_user

FAR = (1 << 63) - 1
KEEP, PUNCH = 1, 2
LONG_PATH = "/long" + "/x" * 2100
LONG_NAME = "/" + "n" * 256


class Hidden(int):
    def __repr__(self):
        return "fd"


def mode_of(st):
    return "%o" % st.st_mode


ON_PATHS = (("stat",), ("lstat",), ("access", 4), ("readlink",), ("listdir",), ("open", os.O_RDONLY), ("open", os.O_WRONLY | os.O_CREAT, 0o644),
            ("mkdir", 0o755), ("rmdir",), ("unlink",), ("truncate", 1), ("chmod", 0o600), ("chown", -1, -1), ("utimens", 10**18, 10**18),
            ("setxattr", "user.e", b"1"), ("getxattr", "user.e"), ("listxattr",), ("removexattr", "user.e"))


def shown(call):
    return {"stat": mode_of, "lstat": mode_of, "open": lambda fd: "open"}.get(call)


def on_path(r, path, calls=ON_PATHS):
    for call, *rest in calls:
        result = r.do(call, path, *rest, show=shown(call))
        if call == "open" and result is not None:
            r.frontend.close(result)
    r.do("symlink", "x", path)
    r.do("link", "/e/file", path)
    if os.getuid() == 0:  # sysctl fs.protected_hardlinks belongs to the kernel
        r.do("link", path, "/e/linked")
    r.do("rename", path, "/e/renamed")
    r.do("rename", "/e/file", path)


def populate(r):
    frontend = r.frontend
    for path, mode in (("/e", 0o777), ("/e/shut", 0o700), ("/e/read", 0o755), ("/e/sticky", 0o1777), ("/e/full", 0o777), ("/e/full/sub", 0o777),
                       ("/e/search", 0o711)):
        frontend.mkdir(path, mode)
        frontend.chmod(path, mode)
    for path in ("/e/file", "/e/shut/file", "/e/read/file", "/e/sticky/file", "/e/search/file"):
        fd = frontend.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        frontend.write(fd, b"contents")
        frontend.close(fd)
    for target, path in (("loop", "/e/loop"), ("b", "/e/a"), ("a", "/e/b")):
        frontend.symlink(target, path)
    frontend.mkdir("/e/sticky/dir", 0o755)
    frontend.mkdir("/e/read/dir", 0o755)


def descriptors(r):
    """Descriptors that are closed, open in the other mode, or of a directory; offsets that are too large."""
    opened = {"read": r.frontend.open("/e/file", os.O_RDONLY), "write": r.frontend.open("/e/file", os.O_WRONLY),
              "directory": r.frontend.open("/e/read", os.O_RDONLY | os.O_DIRECTORY), "place": r.frontend.open("/e/file", os.O_PATH)}
    closed = r.frontend.open("/e/file", os.O_RDWR)
    r.frontend.close(closed)
    opened["closed"] = closed
    for name, fd in opened.items():
        r.say(name)
        fd = Hidden(fd)
        for call, *rest in (("read", 4), ("pread", 4, 0), ("write", b"x"), ("pwrite", b"x", 0), ("lseek", 0, os.SEEK_SET), ("lseek", -1, os.SEEK_SET),
                            ("lseek", 0, 77), ("lseek", 1000, os.SEEK_DATA), ("ftruncate", 8), ("ftruncate", -1), ("fsync",), ("fchmod", 0o644),
                            ("fallocate", 0, 0, 8), ("fallocate", 0, -1, 8), ("fallocate", 0x4000, 0, 8), ("pread", 4, -1), ("pwrite", b"x", -1)):
            if name == "directory" and call == "lseek":
                continue  # file systems differ in the offsets of directories
            if name in ("place", "closed") and (-1 in rest or 77 in rest or 0x4000 in rest):
                continue  # the call is wrong in two ways: either error is right
            r.do(call, fd, *rest)
        r.do("fstat", fd, show=mode_of)
        for other in opened.values():
            r.do("copy_file_range", fd, 0, Hidden(other), 0, 4)
    for name, fd in opened.items():
        if name != "closed":
            r.frontend.close(fd)
    fd = r.frontend.open("/e/file", os.O_RDWR)
    for call, *rest in (("pwrite", b"x", FAR), ("ftruncate", FAR), ("fallocate", 0, FAR - 10, 100), ("fallocate", 0, 1 << 62, 1 << 62),
                        ("lseek", FAR, os.SEEK_END), ("lseek", 100, os.SEEK_DATA), ("lseek", 100, os.SEEK_HOLE), ("pread", 4, FAR)):
        r.do(call, Hidden(fd), *rest)
    r.do("pwrite", Hidden(fd), b"x", FAR - 10)
    r.do("truncate", "/e/file", FAR)
    source = r.frontend.open("/e/read/file", os.O_RDONLY)
    r.do("copy_file_range", Hidden(source), 0, Hidden(fd), FAR - 2, 8)
    r.do("copy_file_range", Hidden(fd), 0, Hidden(fd), 2, 6)
    for one in (fd, source):
        r.frontend.close(one)


def too_long(r):
    for path in (LONG_NAME, LONG_PATH, "/e/loop/x", "/e/a/x", "/e/file/x", "/e/none/x"):
        on_path(r, path)
        r.do("setxattr", path, "other.x", b"")
    for call, *rest in ON_PATHS:
        if call not in ("lstat", "readlink", "unlink"):  # calls about the link itself
            r.do(call, "/e/loop", *rest)
    for call, *rest in (("setxattr", b""), ("getxattr",), ("removexattr",)):
        r.do(call, "/e/file", "other.x", *rest)
    r.do("symlink", "t" * 4096, "/e/target")
    r.do("symlink", "", "/e/empty")
    r.do("setxattr", "/e/file", "user." + "n" * 251, b"")
    r.do("setxattr", "/e/file", "user.big", b"v" * 65537)
    r.do("setxattr", "/e/file", "user.v", b"1", os.XATTR_REPLACE)
    r.do("setxattr", "/e/file", "user.v", b"1", os.XATTR_CREATE)
    r.do("setxattr", "/e/file", "user.v", b"1", os.XATTR_CREATE)
    r.do("setxattr", "/e/file", "user.v", b"1", 7)
    r.do("setxattr", "/e/a", "user.v", b"1")


def kinds(r):
    r.do("rmdir", "/e/full")
    r.do("rmdir", "/e/read/.")
    r.do("rmdir", "/e/full/sub/..")
    r.do("rmdir", "/e/file")
    r.do("unlink", "/e/read")
    r.do("rename", "/e/read", "/e/full")
    r.do("rename", "/e/full", "/e/full/sub/x")
    r.do("rename", "/e/file", "/e/read")
    r.do("rename", "/e/read", "/e/file")
    r.do("rename", "/e/file", "/e/read/file", 1)
    r.do("rename", "/e/file", "/e/read/none", 2)
    r.do("rename", "/e/file", "/e/read/none", 3)
    r.do("rename", "/e/.", "/e/read/none")
    r.do("link", "/e/read", "/e/linked")
    for path, flags in (("/e/read", os.O_WRONLY), ("/e/read", os.O_RDONLY | os.O_CREAT), ("/e/file", os.O_RDONLY | os.O_DIRECTORY),
                        ("/e/file", os.O_RDONLY | os.O_CREAT | os.O_EXCL), ("/e/loop", os.O_RDONLY | os.O_NOFOLLOW),
                        ("/e/read", os.O_TMPFILE | os.O_RDONLY)):
        fd = r.open(path, flags, 0o644)
        if fd is not None:
            r.frontend.close(fd)
    r.do("truncate", "/e/read", 0)
    r.do("truncate", "/e/file", -1)
    r.do("access", "/e/file", 8)
    r.do("access", "/e/file", 1)


def others(r):
    """Operations that a user may not do: search, write, remove from a sticky directory, change files of another user."""
    places = ("/e/shut/file", "/e/shut/none", "/e/read/file", "/e/read/none", "/e/read/dir", "/e/sticky/file", "/e/sticky/dir", "/e/search/file")
    for path in places:
        on_path(r, path, ON_PATHS + (("open", os.O_RDONLY | os.O_NOATIME), ("chown", 0, -1), ("chown", -1, 0), ("listdir",)))
        r.do("rename", "/e/search", path)
        for call, *rest in (("setxattr", b"1"), ("getxattr",), ("removexattr",)):
            r.do(call, path, "trusted.x", *rest)
    r.do("listdir", "/e/search")
    r.do("listdir", "/e/shut")
    r.do("chmod", "/e", 0o700)
    fd = r.open("/e/file", os.O_RDONLY)
    if fd is not None:
        r.do("fchmod", Hidden(fd), 0o777)
        r.frontend.close(fd)


def run(r):
    populate(r)
    descriptors(r)
    too_long(r)
    kinds(r)
    if os.getuid() == 0:
        r.do("chown", "/e/sticky", ALICE, -1)
        r.do("chown", "/e/sticky/file", ALICE, -1)
        as_user(r, BOB, BOB, [], others)
