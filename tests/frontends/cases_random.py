# SPDX-License-Identifier: Apache-2.0
"""Random calls on a small tree, the same ones on each front end. FRONTENDS_STEPS: how many calls. FRONTENDS_SEED: the
first seed."""
import os
import random
import stat

KEEP, PUNCH, ZERO = 1, 2, 16
NAMES = ("a", "b", "c", "dd")


class Hidden(int):
    def __repr__(self):
        return "fd"


def told(st):
    kind = stat.S_IFMT(st.st_mode)
    return "%o links %d size %s" % (st.st_mode, st.st_nlink, "-" if kind == stat.S_IFDIR else st.st_size)


class Walk:
    def __init__(self, r, seed):
        self.r, self.dice, self.top, self.files = r, random.Random(seed), "/random%d" % seed, []
        r.do("mkdir", self.top, 0o755)

    def path(self):
        depth = self.dice.choice((1, 1, 1, 2, 2, 3))
        return self.top + "".join("/" + self.dice.choice(NAMES) for _ in range(depth))

    def file(self):
        return Hidden(self.dice.choice(self.files)) if self.files else None

    def offset(self):
        return self.dice.choice((0, 1, 4095, 4096, 65536, self.dice.randrange(300000), self.dice.randrange(3000000)))

    def size(self):
        return self.dice.choice((1, 100, 4096, self.dice.randrange(1, 200000)))

    def open(self):
        flags = self.dice.choice((os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL,
                                  os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT))
        fd = self.r.open(self.path(), flags, 0o644)
        if fd is not None:
            self.files.append(fd)
        if len(self.files) > 6:
            self.close()

    def close(self):
        if self.files:
            self.r.frontend.close(self.files.pop(self.dice.randrange(len(self.files))))

    def on_names(self):
        r, dice = self.r, self.dice
        call = dice.choice(("mkdir", "mkdir", "rmdir", "unlink", "symlink", "link", "rename", "rename", "truncate", "chmod", "setxattr"))
        first = self.path()
        rest = {"mkdir": lambda: (dice.choice((0o755, 0o700)),), "link": lambda: (self.path(),), "truncate": lambda: (self.offset(),),
                "rename": lambda: (self.path(), dice.choice((0, 0, 0, 1, 2))), "chmod": lambda: (dice.choice((0o644, 0o600, 0o755)),),
                "setxattr": lambda: ("user." + dice.choice("xy"), b"v" * dice.randrange(1, 50))}
        if call == "symlink":
            r.do(call, dice.choice(NAMES), first)
        else:
            r.do(call, first, *rest.get(call, tuple)())

    def on_file(self):
        fd, r, dice = self.file(), self.r, self.dice
        if fd is None:
            return self.open()
        call = dice.choice(("pwrite",) * 4 + ("pread",) * 3 + ("write", "read", "ftruncate", "punch", "zero", "copy", "seek", "fsync"))
        if call == "pwrite":
            r.do("pwrite", fd, dice.randbytes(self.size()), self.offset())
        elif call == "write":
            r.do("write", fd, dice.randbytes(self.size()))
        elif call == "pread":
            r.do("pread", fd, self.size(), self.offset())
        elif call == "read":
            r.do("read", fd, self.size())
        elif call == "ftruncate":
            r.do("ftruncate", fd, self.offset())
        elif call in ("punch", "zero"):
            r.do("fallocate", fd, PUNCH | KEEP if call == "punch" else ZERO | dice.choice((0, KEEP)), self.offset(), self.size())
        elif call == "copy":
            self.copy(fd, self.file())
        elif call == "seek":
            r.do("lseek", fd, self.offset(), dice.choice((os.SEEK_SET, os.SEEK_END)))
        else:
            r.do("fsync", fd)
        return None

    def copy(self, source, target):
        """Copies in as many calls as it takes: a front end may copy less at once."""
        start, to, size = self.offset(), self.offset(), self.size()
        self.r.do("copy_file_range", source, start, target, to, size)

    def looks(self):
        r, path = self.r, self.path()
        for call, show in (("stat", told), ("lstat", told), ("readlink", None), ("listdir", None), ("listxattr", None)):
            r.do(call, path, show=show)
        fd = self.file()
        if fd is not None:
            r.do("fstat", fd, show=told)
            r.do("pread", fd, 4 << 20, 0)

    def end(self):
        while self.files:
            self.close()
        self.everything(self.top)

    def everything(self, path):
        r = self.r
        for name in r.do("listdir", path) or []:
            st = r.do("lstat", path + "/" + name, show=told)
            if stat.S_ISDIR(st.st_mode):
                self.everything(path + "/" + name)
            elif stat.S_ISREG(st.st_mode):
                fd = r.open(path + "/" + name, os.O_RDONLY)
                r.do("pread", Hidden(fd), 8 << 20, 0)
                r.frontend.close(fd)


def run(r):
    steps, seed = int(os.environ.get("FRONTENDS_STEPS", "250")), int(os.environ.get("FRONTENDS_SEED", "1"))
    for number in range(seed, seed + max(1, steps // 500)):
        walk = Walk(r, number)
        for _ in range(min(steps, 500)):
            walk.dice.choice((walk.open, walk.close, walk.on_names, walk.on_names, walk.on_names, walk.on_file, walk.on_file, walk.on_file,
                              walk.on_file, walk.looks))()
        walk.end()
