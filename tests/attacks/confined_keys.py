#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A key for one directory, used by the command, the preload library, the C library and a mount: everything below the directory works by
full paths, and nothing else can be reached, by paths, links, handles, renames or the shell."""
import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys

from key_users import ALICE, User, as_user, open_folder, says
from lib import BIN, SANITIZED, SPATE, Cluster, check, need_root

DENIED = "permission denied"
LIBRARY = os.path.join(BIN, "..", "src", "capi", "libspate.so")


def handle(fs, path):
    told = json.loads(fs.spate("stat", "--json", "spate:" + path))
    return (told[0] if isinstance(told, list) else told)["handle"]


def prepare(fs):
    """A tree in which every mode lets everybody in: only the key keeps its holder back."""
    fs.spate("mkdir", "spate:/top", "spate:/top/data", "spate:/top/data/sub", "spate:/top/other")
    for path in ("/top", "/top/data", "/top/data/sub", "/top/other"):
        fs.spate("chmod", "777", "spate:" + path)
    for path in ("/top/data/f", "/top/data/sub/f", "/top/data/away", "/top/other/g"):
        fs.spate("put", "spate:" + path, input=path.encode())
        fs.spate("chmod", "666", "spate:" + path)


def the_key(fs, user):
    with open(user.key, encoding="utf-8") as file:
        text = file.read()
    check(text.startswith("# A key of Spate for one user, good for /top/data only."), text)
    row = {row["id"]: row for row in json.loads(fs.spate("key", "list", "--json"))["issued"]}[user.id]
    check(row["path"] == "/top/data" and row["directory"] == handle(fs, "/top/data"), row)
    check("path=/top/data until=" in fs.spate("key", "list").decode(), "the list does not say the path")
    fs.spate("ln", "-s", "data", "spate:/top/link")
    for path, said in (("/top/link", "symbolic link"), ("/top/link/sub", "symbolic link"), ("/top/none", "no such file"), ("spate:/top/data/f", "directory"), ("/", "without --path")):
        done = fs.run("key", "issue", "--uid", "5", "--gid", "5", "--path", path)
        check(done.returncode == 1 and said in done.stderr and not done.stdout, "%s: %s" % (path, done))
    fs.spate("rm", "spate:/top/link")


def inside(fs, user):
    check(user.spate("cat", "spate:/top/data/f") == b"/top/data/f", "what it reads")
    user.spate("put", "spate:/top/data/new", input=b"new")
    user.spate("mkdir", "spate:/top/data/made")
    user.spate("mv", "spate:/top/data/new", "spate:/top/data/made/new")
    user.spate("ln", "spate:/top/data/made/new", "spate:/top/data/linked")
    user.spate("rm", "spate:/top/data/made/new")
    check(user.spate("cat", "spate:/top/data/linked") == b"new", "a file after a link and an unlink of its old name")
    user.spate("cp", "spate:/top/data/linked", "spate:/top/data/copied")
    user.spate("chmod", "600", "spate:/top/data/copied")
    check({b"f", b"sub", b"made", b"linked", b"copied"} <= set(user.spate("ls", "spate:/top/data").split()), "the listing")
    user.spate("rm", "-r", "spate:/top/data/made", "spate:/top/data/linked", "spate:/top/data/copied")
    for above in ("spate:/", "spate:/top"):
        user.spate("stat", above)


def outside(fs, user):
    for command in (("ls", "spate:/"), ("ls", "spate:/top"), ("ls", "spate:/top/other"), ("cat", "spate:/top/other/g"), ("stat", "spate:/top/none"),
                    ("stat", "spate:/top/other"), ("stat", "spate:/top/data/../other/g"), ("put", "spate:/top/new"), ("put", "spate:/new"),
                    ("mkdir", "spate:/top/new"), ("rm", "spate:/top/other/g"), ("rm", "-r", "spate:/top/data"), ("chmod", "700", "spate:/top"),
                    ("mv", "spate:/top/data", "spate:/top/moved"), ("mv", "spate:/top/data/f", "spate:/top/other/f"),
                    ("mv", "spate:/top/other/g", "spate:/top/data/g"), ("ln", "spate:/top/other/g", "spate:/top/data/g"),
                    ("ln", "spate:/top/data/f", "spate:/top/other/f"), ("cp", "spate:/top/other/g", "spate:/top/data/g"),
                    ("cp", "spate:/top/data/f", "spate:/top/other/f"), ("find", "spate:/top"), ("setstripe", "--count", "1", "spate:/top")):
        done = user.run(*command, input=b"no")
        check(done.returncode != 0 and DENIED in done.stderr, "%s: exit %d %s" % (command, done.returncode, done.stderr))
        if command[:2] == ("rm", "-r"):  # it removes what is inside, which the user may
            for path in ("/top/data/f", "/top/data/away", "/top/data/sub/f"):
                check(fs.run("stat", "spate:" + path).returncode != 0, path)
            fs.spate("mkdir", "spate:/top/data/sub")
            fs.spate("chmod", "777", "spate:/top/data/sub")
            for path in ("/top/data/f", "/top/data/sub/f", "/top/data/away"):
                fs.spate("put", "spate:" + path, input=path.encode())
                fs.spate("chmod", "666", "spate:" + path)
    user.spate("ln", "-s", "../other/g", "spate:/top/data/out")
    says(user.fails("cat", "spate:/top/data/out"), DENIED)
    user.spate("rm", "spate:/top/data/out")
    check(fs.spate("cat", "spate:/top/other/g") == b"/top/other/g", "it was changed")


def hard_links(fs, user):
    fs.spate("ln", "spate:/top/other/g", "spate:/top/data/g")
    for command in (("cat", "spate:/top/data/g"), ("rm", "spate:/top/data/g"), ("mv", "spate:/top/data/g", "spate:/top/data/h")):
        says(user.fails(*command), DENIED)
    names = user.run("ls", "spate:/top/data")
    check(names.returncode == 0 and b"g" in names.stdout.split() and b"f" in names.stdout.split(), "a listing with such a name: %s" % names)
    fs.spate("rm", "spate:/top/data/g")


class Library:
    """libspate with the user's key, in this process."""

    def __init__(self, user):
        os.environ.update({name: user.env[name] for name in ("HOME", "XDG_STATE_HOME", "SPATE_FS", "SPATE_FS_CLIENT_KEY_FILE")})
        self.library = ctypes.CDLL(LIBRARY)
        self.library.spate_connect.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.library.spate_open_inode.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p]
        self.library.spate_close.argtypes = [ctypes.c_void_p]
        self.fs = ctypes.c_void_p()
        check(self.library.spate_connect(ctypes.addressof(self.fs), user.fs.dir.encode(), None) == 0, "no connection")

    def open_inode(self, inode):
        file = ctypes.c_void_p()
        done = self.library.spate_open_inode(self.fs, inode, os.O_RDONLY, ctypes.addressof(file))
        if done == 0:
            self.library.spate_close(file)
        return done


def by_handles(fs, user):
    """Opens by inode numbers, which are counted up. Then the operator moves files away whose numbers the user knows."""
    if not os.path.exists(LIBRARY):
        print("no libspate.so: the library is left out")
        return
    data, sub, mine, below, away, beside = (handle(fs, "/top/" + path) for path in ("data", "data/sub", "data/f", "data/sub/f", "data/away", "other/g"))

    def opens(objects):
        """Of all numbers that were given out, just these can be opened."""
        def work():
            library = Library(user)
            found = {inode for inode in range(2, max(mine, below, away, beside) + 20) if library.open_inode(inode) == 0}
            check(found == objects, "%s can be opened, not %s" % (sorted(found), sorted(objects)))
            check(library.open_inode(beside) == -errno.EACCES, "the error of a file outside")
        as_user(ALICE, work)

    opens({data, sub, mine, below, away})
    fs.spate("mv", "spate:/top/data/away", "spate:/top/other/away")
    fs.spate("mv", "spate:/top/data/sub", "spate:/top/other/sub")
    opens({data, mine})
    fs.spate("mv", "spate:/top/other/sub", "spate:/top/data/sub")
    fs.spate("mv", "spate:/top/other/away", "spate:/top/data/away")


def refusal(work):
    try:
        work()
        return 0
    except OSError as e:
        return e.errno


def in_mount(place):
    data = place + "/top/data"
    with open(data + "/f", encoding="utf-8") as file:
        check(file.read() == "/top/data/f", "what the mount shows")
    with open(data + "/mounted", "w", encoding="utf-8") as file:
        file.write("by the mount")
        file.flush()
        check(os.stat(data + "/mounted").st_size == 12, "the size of a file that is being written")
    os.link(data + "/mounted", data + "/second")
    os.remove(data + "/mounted")
    os.rename(data + "/second", data + "/sub/mounted")
    check(sorted(os.listdir(data + "/sub")) == ["f", "mounted"], os.listdir(data + "/sub"))
    os.makedirs(data + "/deep/er")
    os.rmdir(data + "/deep/er")
    os.rmdir(data + "/deep")
    check(os.path.isdir(place) and os.path.isdir(place + "/top") and os.path.isdir(data), "the way")
    got = {name: refusal(work) for name, work in {
        "ls /": lambda: os.listdir(place), "ls /top": lambda: os.listdir(place + "/top"), "other": lambda: os.stat(place + "/top/other"),
        "none": lambda: os.stat(place + "/top/none"), "g": lambda: open(place + "/top/other/g", encoding="utf-8"),
        "make": lambda: os.mkdir(place + "/top/made"), "out": lambda: os.rename(data + "/f", place + "/top/f"),
        "root": lambda: os.rename(data, place + "/top/moved"), "chmod": lambda: os.chmod(place + "/top", 0o700)}.items()}
    check(set(got.values()) <= {errno.EACCES, errno.EPERM}, got)
    os.remove(data + "/sub/mounted")


def by_mount(fs, user):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or shutil.which("fusermount3") is None:
        print("no FUSE here: the mount is left out")
        return
    uid = user.uid if os.stat("/dev/fuse").st_mode & 0o6 == 0o6 else 0  # else users may not open it
    place = os.path.join(user.home, "mount")
    os.mkdir(place)
    for path in (place, user.key):
        os.chown(path, uid, uid)
    user.spate("mount", place, uid=uid)
    try:
        as_user(uid, lambda: in_mount(place))
    finally:
        user.spate("umount", place, uid=uid)
        os.chown(user.key, user.uid, user.uid)


BELOW_SPATE = """
import errno, os, sys
def refusal(work):
    try:
        work()
        return 0
    except OSError as e:
        return e.errno
with open("/spate/top/data/f") as f:
    assert f.read() == "/top/data/f"
with open("/spate/top/data/preloaded", "w") as f:
    f.write("x")
os.rename("/spate/top/data/preloaded", "/spate/top/data/renamed")
os.remove("/spate/top/data/renamed")
assert sorted(os.listdir("/spate/top/data/sub")) == ["f"]
for work in (lambda: os.listdir("/spate"), lambda: os.stat("/spate/top/other"), lambda: os.stat("/spate/top/none"),
             lambda: open("/spate/top/other/g"), lambda: os.rename("/spate/top/data/f", "/spate/top/f")):
    assert refusal(work) == errno.EACCES, refusal(work)
print("as it should be")
"""


def by_preload(fs, user):
    if not os.path.exists(os.path.join(BIN, "..", "lib", "libspate-preload.so")):
        print("no preload library: it is left out")
        return
    os.chown(user.key, 0, 0)
    done = subprocess.run([SPATE, "run", "--", sys.executable, "-c", BELOW_SPATE], env=dict(fs.env, SPATE_FS=fs.dir, SPATE_FS_CLIENT_KEY_FILE=user.key,
                          PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True, timeout=120)
    os.chown(user.key, user.uid, user.uid)
    check(done.returncode == 0 and done.stdout.strip() == "as it should be", "%d %s %s" % (done.returncode, done.stdout, done.stderr))


def moved_directory(fs, user):
    """The key names the directory, not its path."""
    fs.spate("mv", "spate:/top/data", "spate:/elsewhere")
    check(user.spate("cat", "spate:/elsewhere/f") == b"/top/data/f", "the directory has another path")
    says(user.fails("stat", "spate:/top"), DENIED)
    fs.spate("mv", "spate:/elsewhere", "spate:/top/data")


need_root()
with Cluster(io=2) as fs:
    fs.up()
    open_folder(fs)
    prepare(fs)
    user = User(fs, "alice", ALICE, "--path", "/top/data")
    for attack in (the_key, inside, outside, hard_links, by_handles, by_preload, by_mount, moved_directory):
        if SANITIZED and attack in (by_handles, by_preload):
            continue  # the library is loaded into a program that has no sanitizer
        attack(fs, user)
        print("%s ok" % attack.__name__, flush=True)
    fs.fsck()
