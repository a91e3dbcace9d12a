#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users with their own keys (`spate key issue`), as real processes of several users. Each acts as himself only; root
with such a key is not root; a key for reading writes nothing through any front end; an altered or expired key is
refused with the reason; and only the operator may make the operator's requests."""
import ctypes
import errno
import grp
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time

from key_users import ALICE, BOB, STAFF, User, as_user, open_folder, owner, says
from lib import BIN, SANITIZED, SPATE, Cluster, check, need_root, wait_until

LIBRARY = os.path.join(BIN, "..", "src", "capi", "libspate.so")


def own_work(fs, alice, bob):
    """A user works with his key as himself. File modes protect users from each other."""
    alice.spate("put", "spate:/all/hers", input=b"of alice")
    check(owner(fs, "spate:/all/hers") == (ALICE, ALICE), "owner %s" % (owner(fs, "spate:/all/hers"),))
    check(alice.spate("cat", "spate:/all/hers") == b"of alice", "what she wrote is not there")
    alice.spate("chmod", "600", "spate:/all/hers")
    says(bob.fails("cat", "spate:/all/hers"), "permission denied")
    bob.spate("mkdir", "spate:/all/his")
    says(alice.fails("put", "spate:/all/his/no", input=b"x"), "permission denied")
    says(bob.fails("chown", str(BOB), "spate:/all/hers"), "not permitted")
    alice.spate("df")
    check(alice.spate("ping") != b"", "no ping")


def groups(fs, alice):
    """The key, not the process, names the groups: a folder of a group is open to every holder of a key with that group."""
    fs.spate("mkdir", "spate:/staff")
    fs.spate("chown", "0:%d" % STAFF, "spate:/staff")
    fs.spate("chmod", "770", "spate:/staff")
    says(alice.fails("put", "spate:/staff/a", input=b"x"), "permission denied")
    member = User(fs, "member", ALICE, "--groups", "4,%d" % STAFF)
    member.spate("put", "spate:/staff/a", input=b"x")
    says(alice.fails("ls", "spate:/staff"), "permission denied")
    for no in (("frob",), ("issue", "--uid", "5", "--gid", "5", "--groups", "4,x"), ("list", "0" * 16)):
        check(fs.run("key", *no).returncode == 2, "key %s" % (no,))


def root_is_no_root(fs, alice, bob):
    """A process of root or of another user acts as alice if it has alice's key."""
    fs.spate("put", "spate:/root-only", input=b"secret")
    fs.spate("chmod", "600", "spate:/root-only")
    os.chown(alice.key, 0, 0)
    says(alice.fails("cat", "spate:/root-only", uid=0), "permission denied")
    says(alice.fails("chown", "0", "spate:/all/hers", uid=0), "not permitted")
    alice.spate("put", "spate:/all/by-root", input=b"x", uid=0)
    check(owner(fs, "spate:/all/by-root") == (ALICE, ALICE), "made by root with alice's key")
    os.chown(alice.key, ALICE, ALICE)
    # The client already refuses a key file that belongs to another user.
    says(bob.fails("ls", "spate:/", env={"SPATE_FS_CLIENT_KEY_FILE": alice.key}), "key file")
    for no in (("--uid", "0", "--gid", "5"), ("--uid", "5", "--gid", "0"), ("--uid", "5", "--gid", "5", "--groups", "0")):
        done = fs.run("key", "issue", *no)
        check(done.returncode == 2 and "root" in done.stderr, "%s: exit %d %s" % (no, done.returncode, done.stderr))


def alterations(fs, alice):
    """A change of any hex digit of the restrictions, the issuer or the secret makes the key invalid."""
    with open(alice.key) as f:
        comment, line = f.read().splitlines()
    word, *parts = line.split(" ")
    check(word == "spate-user-key" and len(parts) == 3, line)
    altered = os.path.join(alice.home, "altered.key")

    def attempt(text):
        with open(altered, "w") as f:
            f.write(text)
        os.chmod(altered, 0o600)
        os.chown(altered, ALICE, ALICE)
        said = alice.fails("ls", "spate:/", env={"SPATE_FS_CLIENT_KEY_FILE": altered})
        check("key" in said and len(said.splitlines()) == 1, "one sentence about the key: %r" % said)
        return said

    for at, part in enumerate(parts):
        for digit in range(0, len(part), 7):
            other = part[:digit] + ("1" if part[digit] != "1" else "2") + part[digit + 1:]
            attempt("\n".join([comment, " ".join([word, *parts[:at], other, *parts[at + 1:]])]) + "\n")
    # bob's number replaces alice's: only the servers can detect that.
    uid = parts[0].replace(ALICE.to_bytes(4, "little").hex(), BOB.to_bytes(4, "little").hex(), 1)
    check(uid != parts[0], "the uid is not where it was")
    says(attempt("\n".join([comment, " ".join([word, uid, *parts[1:]])]) + "\n"), "did not prove the key", "server")
    attempt(line[:-1] + "\n")
    attempt(comment + "\n")
    attempt(parts[2] + "\n")  # the secret alone is no client key


def reading_only(fs, alice):
    """A key for reading, used by the command, the mount and the C library."""
    reader = User(fs, "reader", ALICE, "--read-only")
    check(reader.spate("cat", "spate:/all/hers") == b"of alice", "a reader cannot read")
    alice.spate("mkdir", "spate:/all/folder")
    for command in (("put", "spate:/all/new"), ("put", "spate:/all/hers"), ("mkdir", "spate:/all/new"), ("rm", "spate:/all/hers"),
                    ("rmdir", "spate:/all/folder"), ("mv", "spate:/all/hers", "spate:/all/moved"), ("chmod", "777", "spate:/all/hers"),
                    ("ln", "spate:/all/hers", "spate:/all/link"), ("touch", "spate:/all/hers"),
                    ("cp", "spate:/all/hers", "spate:/all/copy"), ("setstripe", "--count", "1", "spate:/all/folder")):
        done = reader.run(*command, input=b"no")
        check(done.returncode != 0 and re.search("read-only|reading only", done.stderr), "%s: exit %d %s" % (command, done.returncode, done.stderr))
    check(alice.spate("cat", "spate:/all/hers") == b"of alice", "a reader has changed it")
    names = alice.spate("ls", "spate:/all").split()
    check(not {b"new", b"moved", b"link", b"copy"} & set(names), "a reader has made something: %s" % names)
    by_mount(fs, alice, reader)
    if not SANITIZED:
        by_library(alice, reader)
        by_preload(fs, alice, reader)


def in_mount(place, writes):
    def attempt(work):
        try:
            work()
            return 0
        except OSError as e:
            return e.errno

    def write(path, how):
        with open(path, how) as f:
            f.write("of alice")

    hers = place + "/all/hers"
    with open(hers) as f:
        check(f.read() == "of alice", "what the mount shows")
    got = [attempt(lambda: write(hers, "r+")), attempt(lambda: write(place + "/all/mounted", "w")), attempt(lambda: os.truncate(hers, 8)),
           attempt(lambda: os.chmod(hers, 0o600)), attempt(lambda: os.mkdir(place + "/all/made-%s" % writes)),
           attempt(lambda: os.setxattr(hers, "user.a", b"b"))]
    wanted = [0 if writes else errno.EROFS] * len(got)
    check(got == wanted, "writes: %s, not %s" % (got, wanted))
    check(attempt(lambda: open(place + "/root-only")) == errno.EACCES, "a file of root's")
    check(attempt(lambda: os.chown(hers, 0, 0)) != 0, "chown to root")
    for name in ("hers", "mounted", "made-True"):
        check(os.stat(place + "/all/" + name).st_uid == ALICE, "the owner of " + name)


def by_mount(fs, alice, reader):
    """Root makes the mounts, since users may not open /dev/fuse. In the mount root has no special rights either."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or shutil.which("fusermount3") is None:
        print("no FUSE here: the mount is left out")
        return
    everybody = os.stat("/dev/fuse").st_mode & 0o6 == 0o6
    for user, writes in ((alice, True), (reader, False)):
        uid = user.uid if everybody else 0
        place = os.path.join(user.home, "mnt")
        os.makedirs(place)
        for path in (place, user.key):
            os.chown(path, uid, uid)
        user.spate("mount", place, uid=uid)
        try:
            as_user(uid, lambda: in_mount(place, writes))
        finally:
            user.spate("umount", place, uid=uid)
            os.chown(user.key, user.uid, user.uid)


def by_library(alice, reader):
    if not os.path.exists(LIBRARY):
        print("no libspate.so: the library is left out")
        return
    for user, answer in ((reader, -errno.EROFS), (alice, 0)):
        as_user(user.uid, lambda: check(mkdir_by_library(user) == answer, "mkdir in the library of " + user.home))


BELOW_SPATE = """
import errno, os, sys
root_file, hers, made = sys.argv[1:]
try:
    open(root_file)
    sys.exit("a file of root's can be read")
except PermissionError:
    pass
with open(hers) as f:
    assert f.read() == "of alice"
try:
    with open(made, "w") as f:
        f.write("x")
    print("written", os.stat(made).st_uid)
except OSError as e:
    print(errno.errorcode[e.errno])
"""


def by_preload(fs, alice, reader):
    """Root runs the programs. With these keys it acts as alice."""
    if not os.path.exists(os.path.join(BIN, "..", "lib", "libspate-preload.so")):
        print("no preload library: it is left out")
        return
    for user, answer in ((reader, "EROFS"), (alice, "written %d" % ALICE)):
        os.chown(user.key, 0, 0)
        done = subprocess.run([SPATE, "run", "--", sys.executable, "-c", BELOW_SPATE, "/spate/root-only", "/spate/all/hers", "/spate/all/preloaded"],
                              env=dict(fs.env, SPATE_FS=fs.dir, SPATE_FS_CLIENT_KEY_FILE=user.key, PYTHONDONTWRITEBYTECODE="1"),
                              capture_output=True, text=True, timeout=60)
        os.chown(user.key, user.uid, user.uid)
        check(done.returncode == 0 and done.stdout.strip() == answer, "%s: %d %s %s" % (user.home, done.returncode, done.stdout, done.stderr))


def mkdir_by_library(user):
    os.environ.update({name: user.env[name] for name in ("HOME", "XDG_STATE_HOME", "SPATE_FS", "SPATE_FS_CLIENT_KEY_FILE")})
    library = ctypes.CDLL(LIBRARY)
    fs = ctypes.c_void_p()
    library.spate_connect.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    check(library.spate_connect(ctypes.addressof(fs), user.fs.dir.encode(), None) == 0, "no connection")
    library.spate_mkdir.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint]
    made = library.spate_mkdir(fs, b"/all/by-library", 0o755)
    library.spate_disconnect.argtypes = [ctypes.c_void_p]
    library.spate_disconnect(fs)
    return made


def operators_only(fs, alice):
    """The servers refuse users all requests that users do not need."""
    fs.spate("stats")
    for command in (("stats",), ("fsck",), ("key", "issue", "--uid", str(BOB), "--gid", str(BOB))):
        done = alice.run(*command)
        check(done.returncode not in (0, 2), "%s: exit %d %s" % (command, done.returncode, done.stdout))
    says(alice.run("stats").stderr, "only the operator", "server 1")
    # A server's and an issuer's key file must belong to the file system.
    says(fs.fails("key", "issue", "--uid", str(BOB), "--gid", str(BOB), "--set", "fs.client_key_file=" + alice.key), "the key of one user")


def the_end(fs, alice):
    """A key that expires while it is in use, and one that has expired before."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6))
    check(fs.run("key", "issue", "--uid", "5", "--gid", "5", "--until", "2020-01-01").returncode == 2, "a key of the past")
    short = User(fs, "short", ALICE, "--until", until)
    short.spate("cat", "spate:/all/hers")
    lasting = subprocess.Popen([short.program, "put", "spate:/all/lasting"], user=ALICE, group=ALICE, extra_groups=[], env=short.env,
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    lasting.stdin.write(bytes(3 << 20))
    lasting.stdin.flush()
    wait_until(lambda: short.run("ls", "spate:/").returncode != 0, "the key ends", seconds=15)
    says(short.fails("ls", "spate:/"), "has ended on " + until[:-1].replace("T", " "), "server 1", "operator")
    said = lasting.communicate(bytes(3 << 20))[1].decode()
    check(lasting.returncode != 0 and "has ended" in said, "it goes on writing: exit %d %s" % (lasting.returncode, said))
    alice.spate("ls", "spate:/")
    check("has ended on" in fs.log(1), "no line in the server's log")


def revoked(fs, alice):
    """A key that is revoked while in use stops working at once, even for clients that send nothing to the meta server,
    and stays revoked after a restart. The other keys of the same user keep working."""
    lost = User(fs, "lost", ALICE)
    lasting = subprocess.Popen([lost.program, "put", "spate:/all/unfinished"], user=ALICE, group=ALICE, extra_groups=[], env=lost.env,
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    lasting.stdin.write(bytes(3 << 20))
    lasting.stdin.flush()
    wait_until(lambda: alice.run("stat", "spate:/all/unfinished").returncode == 0, "the file is there")
    for no in (("0" * 16,), ("abc",), ()):
        check(fs.run("key", "revoke", *no).returncode in (1, 2), "revoke %s" % (no,))
    check(lost.run("key", "revoke", alice.id).returncode == 1, "a user revokes another's key")
    says(lost.fails("key", "list"), "only the operator")
    fs.spate("key", "revoke", lost.id)
    fs.spate("key", "revoke", lost.id)
    says(lost.fails("ls", "spate:/"), lost.id + " was revoked", "server 1", "operator")
    said = lasting.communicate(bytes(3 << 20))[1].decode()
    check(lasting.returncode != 0 and "revoked" in said, "it goes on writing: exit %d %s" % (lasting.returncode, said))
    alice.spate("cat", "spate:/all/hers")
    listed = json.loads(fs.spate("key", "list", "--json"))["revoked"]
    check([row["id"] for row in listed] == [lost.id], "listed: %s" % listed)
    check("user key revoked key=" + lost.id in fs.log(1), "no line about who has revoked it")
    fs.kill(1)
    fs.up()
    says(lost.fails("ls", "spate:/"), lost.id + " was revoked")
    alice.spate("cat", "spate:/all/hers")
    check(lost.id in fs.spate("key", "list").decode(), "forgotten by a restart")


def revoked_until_its_end(fs, alice):
    """A record next to the client key holds the key's own end, so that the list of revoked keys can drop it after that
    time."""
    ends = User(fs, "ends", ALICE, "--until", "2099-01-31T12:30")
    fs.spate("key", "revoke", ends.id, alice.id[:-1] + ("0" if alice.id[-1] != "0" else "1"))
    says(ends.fails("ls", "spate:/"), ends.id + " was revoked")
    check('key revoked key=%s until="2099-01-31 12:30:00 UTC"' % ends.id in fs.log(1), "the server has not heard of the end")
    check(re.search('key revoked key=%s. until="ever"' % alice.id[:-1], fs.log(1)), "a key that the record does not know has an end")


def recorded(fs, alice):
    with open(fs.dir + "/keys/client.key.issued") as f:
        lines = f.read().splitlines()
    check(any("id=" + alice.id in line and "uid=%d" % ALICE in line for line in lines), "alice's key is not recorded: %s" % lines)
    check(os.stat(fs.dir + "/keys/client.key.issued").st_mode & 0o077 == 0, "others can read the record")


def listed(fs, alice):
    """key list shows every key of the record with its state. Names do for numbers, and a key of an unknown user is none."""
    named = json.loads(fs.spate("key", "issue", "--uid", "nobody", "--gid", "nogroup", "--groups", "%d,tty" % ALICE, "--json"))
    check((named["uid"], named["gid"]) == (pwd.getpwnam("nobody").pw_uid, grp.getgrnam("nogroup").gr_gid), named)
    check(sorted(named["groups"]) == sorted([ALICE, grp.getgrnam("tty").gr_gid]), named)
    for wrong in (("--uid", "no-such-user"), ("--uid", "root"), ("--uid", "-1"), ("--uid", "99999999999"), ("--uid", "5", "--gid", "no-such-group")):
        done = fs.run("key", "issue", *wrong)
        check(done.returncode == 2 and done.stderr and not done.stdout, "key issue %s: %s" % (wrong, done))
    told = json.loads(fs.spate("key", "list", "--json"))
    rows = {row["id"]: row for row in told["issued"]}
    dead = {row["id"] for row in told["revoked"]}
    check(dead and dead & rows.keys(), "no revoked key is in the list: %s" % told)
    check(all((row["state"] == "revoked") == (key in dead) for key, row in rows.items()), told)
    check(any(row["state"] == "ended" for row in rows.values()), told)
    mine = rows[named["id"]]
    check(all(mine[word] == named[word] for word in ("uid", "gid", "groups", "read_only", "until_ns")) and mine["state"] == "valid", (mine, named))
    check(rows[alice.id]["uid"] == ALICE and rows[alice.id]["state"] == "valid", rows)
    text = fs.spate("key", "list").decode()
    check(re.search(r"^%s  valid  uid=%d " % (alice.id, ALICE), text, re.MULTILINE), text)
    check(all(re.search(r"^%s  revoked " % key, text, re.MULTILINE) for key in dead), text)


need_root()
with Cluster(io=2) as fs:
    fs.up()
    open_folder(fs)
    alice, bob = User(fs, "alice", ALICE), User(fs, "bob", BOB)
    own_work(fs, alice, bob)
    for attack, *people in ((groups, alice), (root_is_no_root, alice, bob), (alterations, alice), (reading_only, alice), (operators_only, alice),
                            (recorded, alice), (revoked, alice), (revoked_until_its_end, alice), (the_end, alice), (listed, alice)):
        attack(fs, *people)
        print("%s ok" % attack.__name__, flush=True)
    fs.fsck()
