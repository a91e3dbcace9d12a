# SPDX-License-Identifier: Apache-2.0
"""Users with their own keys (`spate key issue`), for the attacks."""
import json
import os
import shutil
import subprocess
import sys

from lib import BIN, SPATE, check

ALICE, BOB, STAFF = 65504, 65505, 65506  # users and a group that no account has


def open_folder(fs):
    """Lets users read the configuration, and creates the folder spate:/all for them."""
    for folder in (fs.root, fs.dir):
        os.chmod(folder, 0o711)
    os.chmod(fs.dir + "/spate.toml", 0o644)
    fs.spate("mkdir", "spate:/all")
    fs.spate("chmod", "1777", "spate:/all")


class User:
    """A user with a copy of the program and a key of his own."""

    def __init__(self, fs, name, uid, *more):
        self.fs, self.uid, self.home = fs, uid, os.path.join(fs.root, name)
        os.makedirs(self.home)
        self.program = shutil.copy(SPATE, self.home)  # the build may lie where other users have no access
        for program in ("spate-mount", "spated", "spate-export"):
            shutil.copy(os.path.join(BIN, program), self.home)
        self.key = os.path.join(self.home, "user.key")
        self.id = issue(fs, self.key, uid, *more)
        for path in (self.home, self.key):
            os.chown(path, uid, uid)
        self.env = dict(fs.env, HOME=self.home, XDG_STATE_HOME=self.home, SPATE_FS=fs.dir, SPATE_FS_CLIENT_KEY_FILE=self.key)

    def run(self, *args, uid=None, input=None, **more):
        uid = self.uid if uid is None else uid
        done = subprocess.run([self.program, *args], user=uid, group=uid, extra_groups=[], env=dict(self.env, **more.pop("env", {})),
                              capture_output=True, input=input, timeout=60, **more)
        done.stderr = done.stderr.decode(errors="replace")
        return done

    def spate(self, *args, **more):
        done = self.run(*args, **more)
        check(done.returncode == 0, "%s: exit %d %s" % (args, done.returncode, done.stderr))
        return done.stdout

    def fails(self, *args, **more):
        done = self.run(*args, **more)
        check(done.returncode == 1, "%s: exit %d %s%s" % (args, done.returncode, done.stdout, done.stderr))
        return done.stderr


def issue(fs, path, uid, *more):
    told = fs.spate("key", "issue", "--uid", str(uid), "--gid", str(uid), "-o", path, "--json", *more)
    return json.loads(told)["id"]


def owner(fs, path):
    at = json.loads(fs.spate("stat", "--json", path))
    at = at[0] if isinstance(at, list) else at
    return at["uid"], at["gid"]


def says(text, *parts):
    for part in parts:
        check(part in text, "%r is not in %r" % (part, text))


def as_user(uid, work):
    """Runs the function in a process of that user. The interpreter is not started again, since its files may lie where
    only root has access."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        except BaseException as e:
            print("as user %d: %r" % (uid, e), file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the process of user %d failed" % uid)
