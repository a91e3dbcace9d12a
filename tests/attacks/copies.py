#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate cp` by root from and to folders where somebody else can write, and by users with files of other owners. No
file outside of the destination is written, and no copy is setuid or setgid for a user who did not make it so."""
import json
import os
import shutil
import stat
import struct
import subprocess
import sys

from lib import BIN, SPATE, STRANGER, Cluster, check, need_root, run_below_spate


def bits(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def remote_bits(fs, path):
    at = json.loads(fs.spate("stat", "--json", path))
    return int(str((at[0] if isinstance(at, list) else at)["mode"]), 8) & 0o7777


class Stranger:
    """A user who has the client key and so may use the file system, but who is not trusted on this machine."""

    def __init__(self, fs):
        self.fs, self.home = fs, os.path.join(fs.root, "stranger")
        os.makedirs(self.home)
        for folder in (fs.root, fs.dir):
            os.chmod(folder, 0o711)
        os.chmod(fs.dir + "/spate.toml", 0o644)
        self.program = shutil.copy(SPATE, self.home)  # the build may lie where other users have no access
        self.key = shutil.copy(fs.dir + "/keys/client.key", self.home)
        os.chmod(self.key, 0o600)
        for path in (self.home, self.key):
            os.chown(path, STRANGER, STRANGER)

    def path(self, name, data=None, mode=0o644, owner=STRANGER):
        """Returns the path of a file in the stranger's folder. Creates the file if content is given."""
        path = os.path.join(self.home, name)
        if data is not None:
            with open(path, "wb") as f:
                f.write(data)
            os.chown(path, owner, owner)
            os.chmod(path, mode)
        return path

    def cp(self, *args):
        done = subprocess.run([self.program, "--fs", self.fs.dir, "--set", "fs.client_key_file=" + self.key, "cp", *args],
                              user=STRANGER, group=STRANGER, extra_groups=[], env=dict(self.fs.env, HOME=self.home, XDG_STATE_HOME=self.home),
                              capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, "cp %s: %s" % (args, done.stderr))


def setuid_is_for_its_owner(fs):
    user = Stranger(fs)
    user.fs.spate("mkdir", "spate:/all")
    fs.spate("cp", user.path("program", b"#!", 0o6755, owner=0), "spate:/program")
    os.makedirs(fs.root + "/open")
    os.chmod(fs.root + "/open", 0o777)
    fs.spate("cp", "-r", fs.root + "/open", "spate:/open")
    check(remote_bits(fs, "spate:/program") == 0o6755, "root keeps it")
    # Somebody else copies the file: out, in and within.
    user.cp("spate:/program", user.path("out"))
    check(bits(user.path("out")) == 0o755, "out: mode %o for another user" % bits(user.path("out")))
    user.cp(user.path("program"), "spate:/open/in")
    check(remote_bits(fs, "spate:/open/in") == 0o755, "in: mode %o for another user" % remote_bits(fs, "spate:/open/in"))
    user.cp("spate:/program", "spate:/open/within")
    check(remote_bits(fs, "spate:/open/within") == 0o755, "within: mode %o for another user" % remote_bits(fs, "spate:/open/within"))
    # A user who copies his own file keeps the bits. Root does so, too, if it keeps the owner.
    user.path("mine", b"#!", 0o4755)
    user.cp(user.path("mine"), "spate:/open/mine")
    user.cp("spate:/open/mine", "spate:/open/mine2")
    user.cp("spate:/open/mine2", user.path("mine3"))
    lost = (remote_bits(fs, "spate:/open/mine2"), bits(user.path("mine3")))
    check(lost == (0o4755, 0o4755), "one's own setuid is lost: %o, %o" % lost)
    fs.spate("cp", "spate:/open/mine", fs.root + "/kept")
    check((bits(fs.root + "/kept"), os.stat(fs.root + "/kept").st_uid) == (0o4755, STRANGER), "root loses it")
    # The same for a folder: files that are created in a setgid folder would get its group.
    os.makedirs(user.path("shared"))
    os.chmod(user.path("shared"), 0o2755)
    user.cp("-r", user.path("shared"), "spate:/open/shared")
    check(remote_bits(fs, "spate:/open/shared") == 0o755, "in: a folder of mode %o" % remote_bits(fs, "spate:/open/shared"))


def a_link_that_was_just_made_is_not_written_through(fs):
    victim = os.path.join(fs.root, "victim")
    for folder in ("t1", "t2"):
        os.makedirs(os.path.join(fs.root, folder))
    os.symlink("/secret", fs.root + "/t1/x")
    for path, data in (("victim", b"victim"), ("t2/x", b"evil")):
        with open(os.path.join(fs.root, path), "wb") as f:
            f.write(data)
    # Copies in and within: the link leads to another file of the file system.
    fs.spate("put", "spate:/secret", input=b"secret")
    for source, target in ((fs.root, "spate:/in"), ("spate:", "spate:/within")):
        fs.spate("mkdir", target)
        fs.spate("cp", "-r", source + "/t1/x", source + "/t2/x", target)
        check(fs.spate("cat", "spate:/secret") == b"secret", target + ": written through the link")
        check(fs.spate("cat", target + "/x") == b"evil", target + ": the last one is there")
        if source == fs.root:
            for folder in ("t1", "t2"):
                fs.spate("cp", "-r", fs.root + "/" + folder, "spate:/" + folder)
    # A copy out: the link leads to any place.
    fs.spate("rm", "spate:/t1/x")
    fs.spate("ln", "-s", victim, "spate:/t1/x")
    os.makedirs(fs.root + "/out")
    fs.spate("cp", "-r", "spate:/t1/x", "spate:/t2/x", fs.root + "/out")
    with open(victim, "rb") as f:
        check(f.read() == b"victim", "out: written through the link")
    with open(fs.root + "/out/x", "rb") as f:
        check(f.read() == b"evil" and not os.path.islink(fs.root + "/out/x"), "out: the last one is there")
    # The link already exists below the destination. A link that the user names himself is followed.
    shutil.rmtree(fs.root + "/out")
    os.makedirs(fs.root + "/out/t2")
    os.symlink(victim, fs.root + "/out/t2/x")
    fs.spate("cp", "-r", "spate:/t2", fs.root + "/out")
    with open(victim, "rb") as f:
        check(f.read() == b"victim", "out: written through a link in a tree")
    named = fs.root + "/named"
    os.symlink(victim, named)
    fs.spate("cp", "spate:/t2/x", named)
    with open(victim, "rb") as f:
        check(f.read() == b"evil" and os.path.islink(named), "a link that the user names is followed")


def an_access_list_does_not_outlive_the_file(fs):
    open_to_one = fs.root + "/listed"
    with open(open_to_one, "w") as f:
        f.write("x")
    nobody = 0xffffffff
    entries = [(1, 6, nobody), (2, 6, STRANGER), (4, 4, nobody), (0x10, 6, nobody), (0x20, 0, nobody)]  # owner, a user, group, mask, others
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
    try:
        os.setxattr(open_to_one, "system.posix_acl_access", value)
    except OSError as e:
        print("no access lists here: %s" % e)
        return
    private = fs.root + "/group"
    with open(private, "w") as f:
        f.write("for the group")
    os.chmod(private, 0o660)
    fs.spate("cp", private, "spate:/group")
    fs.spate("cp", "spate:/group", open_to_one)
    check("system.posix_acl_access" not in os.listxattr(open_to_one), "out: a user whom the list names may read what was copied")
    if not os.path.exists(os.path.join(BIN, "..", "lib", "libspate-preload.so")):
        return
    for source, target in ((private, "spate:/listed"), ("spate:/group", "spate:/listed2")):
        path = "/spate/" + target[7:]
        fs.spate("put", target, input=b"x")
        run_below_spate(fs, "import os; os.setxattr(%r, 'system.posix_acl_access', %r)" % (path, value))
        fs.spate("cp", source, target)
        left = run_below_spate(fs, "import os\ntry: print(os.getxattr(%r, 'system.posix_acl_access'))\nexcept OSError: print('none')" % path)
        check(left == "none\n", "%s: a user whom the list names may read what was copied: %s" % (target, left))


def main():
    need_root()
    with Cluster(io=2) as fs:
        fs.up()
        for each in (setuid_is_for_its_owner, a_link_that_was_just_made_is_not_written_through, an_access_list_does_not_outlive_the_file):
            if sys.argv[1:] and each.__name__ not in sys.argv[1:]:
                continue
            each(fs)
            print(each.__name__, flush=True)


main()
