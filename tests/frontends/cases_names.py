# SPDX-License-Identifier: Apache-2.0
"""Every call on names and descriptors, on every kind of path: results, errors, and the tree afterwards."""
import os
import stat

NOREPLACE, EXCHANGE = 1, 2
LONG = "n" * 255


class Hidden(int):
    def __repr__(self):
        return "fd"


def told(st):
    kind = stat.S_IFMT(st.st_mode)
    size = "-" if kind == stat.S_IFDIR else st.st_size
    return "%o links %d size %s %d:%d" % (st.st_mode, st.st_nlink, size, st.st_uid, st.st_gid)


def populate(r, top):
    frontend = r.frontend
    for name in ("", "/dir", "/dir/sub", "/empty"):
        frontend.mkdir(top + name, 0o755)
    for name in ("/file", "/dir/inside", "/twin"):
        fd = frontend.open(top + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        frontend.write(fd, b"contents")
        frontend.close(fd)
    for target, name in (("file", "/link"), ("dir", "/dirlink"), ("nowhere", "/dangling"), ("loop", "/loop"), ("../file", "/dir/up")):
        frontend.symlink(target, top + name)
    frontend.link(top + "/twin", top + "/dir/twin2")


PATHS = ("/file", "/file/", "/file/x", "/none", "/none/", "/none/x", "/dir", "/dir/", "/dir/.", "/dir/..", "/dir/sub", "/dir/sub/..",
         "/empty", "/empty/", "/empty/new", "/empty/new/", "/link", "/link/", "/link/x", "/dirlink", "/dirlink/", "/dirlink/sub",
         "/dirlink/new", "/dangling", "/dangling/", "/dangling/x", "/loop", "/loop/x", "/dir/up", "//dir///sub//", "/twin", "/dir/twin2",
         "/" + LONG, "/" + LONG + "x", "/dir/./sub/./../twin2", "/\xe4\udcff b")


def tree(r, top, at=""):
    """Returns a line for everything in the tree, in order."""
    lines = []
    for name in r.frontend.listdir(top + at):
        path = at + "/" + name
        st = r.frontend.lstat(top + path)
        lines.append("%r %s" % (path, told(st)))
        if stat.S_ISDIR(st.st_mode):
            lines += tree(r, top, path)
        elif stat.S_ISLNK(st.st_mode):
            lines[-1] += " -> " + r.frontend.readlink(top + path)
    return lines


def use(r, path, flags, mode=0o640):
    fd = r.open(path, flags, mode)
    if fd is None:
        return
    r.do("fstat", Hidden(fd), show=told)
    r.do("write", Hidden(fd), b"abc")
    r.do("lseek", Hidden(fd), 0, os.SEEK_SET)
    r.do("read", Hidden(fd), 5)
    if not r.failed or flags & os.O_ACCMODE == os.O_WRONLY:  # the end of a directory depends on how ext4 hashes its names
        r.do("lseek", Hidden(fd), -1, os.SEEK_END)
        r.do("lseek", Hidden(fd), -100, os.SEEK_CUR)
    r.do("lseek", Hidden(fd), 0, 99)
    r.do("pread", Hidden(fd), 3, 1)
    r.do("pwrite", Hidden(fd), b"Z", 4)
    r.do("ftruncate", Hidden(fd), 7)
    r.do("ftruncate", Hidden(fd), -1)
    r.frontend.close(fd)


LOOKS = (("stat", told), ("lstat", told), ("readlink", None), ("listdir", None), ("listxattr", None))
OPENS = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR | os.O_TRUNC,
         os.O_RDONLY | os.O_DIRECTORY, os.O_RDWR | os.O_DIRECTORY, os.O_RDONLY | os.O_NOFOLLOW, os.O_RDWR | os.O_APPEND)


def looks(r):
    populate(r, "/look")
    for path in PATHS:
        for call, show in LOOKS:
            r.do(call, "/look" + path, show=show)
        for wanted in (0, 4, 7):
            r.do("access", "/look" + path, wanted)
        for name in ("user.none", "other.x", "user.", ""):
            r.do("getxattr", "/look" + path, name)


def clean(r, top, at=""):
    for name in r.frontend.listdir(top + at):
        path = at + "/" + name
        if stat.S_ISDIR(r.frontend.lstat(top + path).st_mode):
            clean(r, top, path)
        else:
            r.frontend.unlink(top + path)
    r.frontend.rmdir(top + at)


class Tree:
    """A tree on which changes are tried. It is rebuilt after each successful change, and the result is printed."""

    def __init__(self, r):
        self.r, self.there = r, False

    def __call__(self, call, *arguments):
        if not self.there:
            populate(self.r, "/t")
        self.r.do(call, *arguments)
        self.there = self.r.failed
        if not self.there:
            self.end()

    def end(self):
        self.r.say(" ; ".join(tree(self.r, "/t")))
        clean(self.r, "/t")
        self.there = False


def one_path(r):
    changes = [("mkdir", 0o755), ("rmdir",), ("unlink",), ("truncate", 3), ("truncate", -1), ("chmod", 0o600), ("utimens", 10**18, 2 * 10**18),
               ("chown", -1, -1), ("setxattr", "user.a", b"1"), ("removexattr", "user.a")]
    changed = Tree(r)
    for path in PATHS:
        for change in changes:
            changed(change[0], "/t" + path, *change[1:])
        changed("symlink", "target", "/t" + path)
        if not changed.there:
            populate(r, "/t")
        for value, flags in ((b"v", os.XATTR_REPLACE), (b"v", os.XATTR_CREATE), (b"w", os.XATTR_CREATE)):
            r.do("setxattr", "/t" + path, "user.a", value, flags)
        r.do("getxattr", "/t" + path, "user.a")
        for flags in OPENS:
            use(r, "/t" + path, flags)
        changed.end()


SOME = ("/file", "/none", "/none/x", "/dir", "/dir/", "/dir/sub", "/dir/sub/new", "/empty", "/empty/new", "/link", "/dirlink", "/dangling",
        "/loop/x", "/twin", "/dir/twin2", "/dir/.", "/" + LONG + "x", "/file/x", "/dir/inside")


def two_paths(r):
    changed = Tree(r)
    for first in SOME:
        for second in SOME:
            for call, *flags in (("rename",), ("rename", NOREPLACE), ("rename", EXCHANGE), ("rename", 8), ("link",)):
                changed(call, "/t" + first, "/t" + second, *flags)
    if changed.there:
        changed.end()


def open_and_gone(r):
    """Open files live on without a name, or under another name."""
    populate(r, "/gone")
    fd = r.open("/gone/file", os.O_RDWR)
    r.do("unlink", "/gone/file")
    r.do("fstat", Hidden(fd), show=told)
    r.do("pwrite", Hidden(fd), b"still here", 0)
    r.do("pread", Hidden(fd), 20, 0)
    r.frontend.close(fd)
    fd = r.open("/gone/twin", os.O_RDWR)
    r.do("rename", "/gone/dir/inside", "/gone/twin")
    r.do("fstat", Hidden(fd), show=told)
    r.do("pread", Hidden(fd), 20, 0)
    r.do("stat", "/gone/twin", show=told)
    r.do("fchmod", Hidden(fd), 0o400)
    r.do("stat", "/gone/dir/twin2", show=told)
    r.frontend.close(fd)
    for flags in (os.O_RDONLY | os.O_DIRECTORY, os.O_PATH):
        r.do("mkdir", "/gone/removed", 0o750)
        fd = r.open("/gone/removed", flags)
        r.do("rmdir", "/gone/removed")
        r.do("fstat", Hidden(fd), show=told)
        r.frontend.close(fd)


def run(r):
    looks(r)
    one_path(r)
    two_paths(r)
    open_and_gone(r)
