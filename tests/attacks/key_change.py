#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both keys of a file system are changed as docs/operating.md, "New keys", describes, while clients work. No client
fails, and afterwards the old keys are refused."""
import os
import secrets
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import SPATE, Cluster, alive, check, wait_until


class Worker(threading.Thread):
    """Writes, reads and removes files, with one program for each step, until it is told to end."""

    def __init__(self, fs, env):
        super().__init__()
        self.fs, self.env, self.done, self.rounds, self.failed = fs, env, threading.Event(), 0, None

    def run(self):
        while not self.done.is_set() and self.failed is None:
            data = os.urandom(200_000)
            for command, more in ((("put", "spate:/work"), {"input": data}), (("cat", "spate:/work"), {}), (("rm", "spate:/work"), {})):
                result = self.fs.run(*command, env=self.env, **more)
                if result.returncode != 0 or (command[0] == "cat" and result.stdout != data):
                    self.failed = "%s: exit %d %s" % (command[0], result.returncode, result.stderr)
                    break
            self.rounds += 1


class Keys:
    def __init__(self, fs):
        self.fs = fs
        self.own = fs.dir + "/own.key"  # the key file of a client on another machine

    def path(self, role):
        return "%s/keys/%s.key" % (self.fs.dir, role)

    def lines(self, path):
        with open(path) as f:
            return f.read().split()

    def write(self, path, *keys):
        with open(path + ".new", "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as f:
            f.write("".join(key + "\n" for key in keys))
        os.rename(path + ".new", path)

    def on_servers(self, role, *keys):
        """Copies the file to all servers and restarts them one after the other."""
        self.write(self.path(role), *keys)
        for server, pid in sorted(self.fs.pids().items()):
            self.fs.kill(server, sig=signal.SIGTERM)
            wait_until(lambda: not alive(pid), "server %d ends" % server)
            self.fs.up()


def client_key(fs, keys):
    old, new = keys.lines(keys.path("client"))[0], secrets.token_hex(32)
    keys.write(keys.own, old)
    env = {"SPATE_FS_CLIENT_KEY_FILE": keys.own}
    # One program that runs before and after the change: it reads its key again.
    lasting = subprocess.Popen([SPATE, "put", "spate:/lasting"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=dict(fs.env, **env))
    part = os.urandom(3 << 20)
    lasting.stdin.write(part)
    lasting.stdin.flush()
    worker = Worker(fs, env)
    worker.start()
    keys.on_servers("client", new, old)
    rounds = worker.rounds
    wait_until(lambda: worker.rounds > rounds + 1 or worker.failed, "the worker goes on with the old key")
    keys.write(keys.own, new)
    rounds = worker.rounds
    wait_until(lambda: worker.rounds > rounds + 1 or worker.failed, "the worker goes on with the new key")
    keys.on_servers("client", new)
    rounds = worker.rounds
    wait_until(lambda: worker.rounds > rounds + 1 or worker.failed, "the worker goes on without the old key")
    worker.done.set()
    worker.join()
    check(worker.failed is None, "an interruption: %s" % worker.failed)
    said = lasting.communicate(part)[1].decode()
    check(lasting.returncode == 0, "the program that lasted: exit %d %s" % (lasting.returncode, said))
    check(fs.spate("cat", "spate:/lasting", env=env) == part + part, "what it wrote is not there")
    keys.write(keys.own, old)
    said = fs.fails("ls", "spate:/", env=env)
    check("wrong client key" in said, "with the old key: " + said)
    keys.write(keys.own, secrets.token_hex(32))
    check("wrong client key" in fs.fails("ls", "spate:/", env=env), "with a key of nobody")


def server_key(fs, keys):
    old, new = keys.lines(keys.path("server"))[0], secrets.token_hex(32)
    worker = Worker(fs, {})
    worker.start()
    for lines in ((old, new), (new, old), (new,)):
        keys.on_servers("server", *lines)
        rounds = worker.rounds
        wait_until(lambda: worker.rounds > rounds + 1 or worker.failed, "the worker goes on with %d keys" % len(lines))
    worker.done.set()
    worker.join()
    check(worker.failed is None, "an interruption: %s" % worker.failed)
    fs.fsck()
    stale = fs.dir + "/stale.key"
    keys.write(stale, old)
    said = fs.run("fsck", env={"SPATE_FS_SERVER_KEY_FILE": stale})
    check(said.returncode != 0 and "wrong" in said.stderr, "fsck with the old key: exit %d %s" % (said.returncode, said.stderr))


with Cluster(io=2) as fs:
    fs.up()
    keys = Keys(fs)
    for change in (client_key, server_key):
        change(fs, keys)
        print("%s ok" % change.__name__, flush=True)
