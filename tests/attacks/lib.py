# SPDX-License-Identifier: Apache-2.0
"""Code that the attacks share: users, and programs that run as them."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests", "integration"))
from cluster import BIN, SANITIZED, SPATE, Cluster, check, free_ports, skip, wait_until  # noqa: E402,F401

STRANGER = 65503  # a user without an account


def need_root():
    if os.geteuid() != 0:
        skip("needs root, to be several users")


def as_stranger(work):
    """Runs `work` as a stranger. Returns the errno of the OSError that it raises, or 0."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(STRANGER, STRANGER, STRANGER)
        os.setresuid(STRANGER, STRANGER, STRANGER)
        try:
            work()
            os._exit(0)
        except OSError as e:
            os._exit(e.errno or 255)
        finally:
            os._exit(255)  # exit without cleanup, as an attacker would
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_below_spate(fs, script, *arguments, timeout=60):
    """Runs a python script under `spate run`, on /spate. It must end with 0."""
    done = subprocess.run([SPATE, "run", "--", sys.executable, "-c", script, *arguments], timeout=timeout, stdin=subprocess.DEVNULL,
                          env=dict(fs.env, SPATE_FS=fs.dir, PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True)
    check(done.returncode == 0, "exit %d:\n%s%s" % (done.returncode, done.stdout, done.stderr))
    return done.stdout


def own(path, mode=0o755, user=STRANGER):
    """Makes a folder that belongs to this user."""
    os.makedirs(path, exist_ok=True)
    os.chown(path, user, user)
    os.chmod(path, mode)
    return path
