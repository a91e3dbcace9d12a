#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client is killed, or stands still for too long, in the middle of a write. Size and content of the file must be
right for every reader from then on."""
import json
import os
import random
import signal
import subprocess
import time

from cluster import BIN, Cluster, check, wait_until

LEASE = 3  # seconds; on a busy machine a client's heartbeat may be one or two late
WRITER = os.path.join(BIN, "steady_writer")
SIZE = 48 << 20


def fences(fs):
    """Returns how many expired sessions an io server has been told to refuse."""
    told = fs.spate("stats", "2", "--prometheus").decode()
    return sum(int(line.split()[1]) for line in told.splitlines() if line.startswith("spate_rpc_request_ns_count{") and 'op="fence"' in line)


def datafiles(fs):
    """Returns how many datafiles all io servers hold."""
    return sum(len(fs.datafiles(server)) for server in range(2, fs.io + 2))


def size_of(fs, path):
    return json.loads(fs.spate("stat", "--json", path))[0]["size"]


class Writer:
    """A steady_writer that writes spate:NAME."""

    def __init__(self, fs, name):
        self.path = "spate:" + name
        self.said = open(fs.root + "/said" + name.replace("/", "-"), "wb+")
        self.process = subprocess.Popen([WRITER, fs.dir + "/spate.toml", name, fs.root + "/data", str(random.randrange(1 << 30))],
                                        env=dict(fs.env, SPATE_LOG_LEVEL="error"), stdin=subprocess.PIPE, stdout=self.said, stderr=subprocess.PIPE)

    def lines(self):
        self.said.seek(0)
        return self.said.read().split()

    def acknowledged(self):
        numbers = [int(line) for line in self.lines() if line != b"closed"]
        return numbers[-1] if numbers else 0

    def wait_for(self, pieces):
        wait_until(lambda: len(self.lines()) >= pieces or self.process.poll() is not None, "%d acknowledged pieces" % pieces)
        check(self.process.poll() is None, "the writer has ended too early")

    def killed(self):
        self.process.kill()
        self.process.communicate()
        self.said.flush()
        return self.acknowledged()

    def ended(self):
        said = self.process.communicate(timeout=60)[1].decode()
        return self.process.returncode, said


def right(fs, path, data, acknowledged, moment):
    """Checks that acknowledged data is there, and that anything behind it was written or is a hole. Returns the content."""
    content = fs.spate("cat", path)
    check(size_of(fs, path) == len(content), "%s: size %d, content of %d" % (moment, size_of(fs, path), len(content)))
    check(acknowledged <= len(content) <= acknowledged + (1 << 20), "%s: %d acknowledged, %d there" % (moment, acknowledged, len(content)))
    check(content[:acknowledged] == data[:acknowledged], moment + ": what was acknowledged differs")
    check(all(a in (b, 0) for a, b in zip(content[acknowledged:], data[acknowledged:len(content)])), moment + ": content that was never written")
    return content


def killed_in_mid_write(fs, data):
    dead = []
    for pieces in (1, 7, 60):
        writer = Writer(fs, "/killed%d" % pieces)
        writer.wait_for(pieces)
        time.sleep(random.uniform(0, 0.02))  # lets the kill fall anywhere in a write
        acknowledged = writer.killed()
        dead.append((writer.path, acknowledged, right(fs, writer.path, data, acknowledged, "at once")))
    wait_until(lambda: fences(fs) >= len(dead), "the sessions of the killed clients expire")
    for moment in ("after the lease", "after a crash of all servers"):
        for path, acknowledged, at_once in dead:
            check(right(fs, path, data, acknowledged, moment) == at_once, "the content has changed " + moment)
            check(str(len(at_once)) in fs.spate("ls", "-l", path).decode(), "ls -l shows another size")
        if moment == "after the lease":
            fs.kill(*range(1, fs.io + 2))
            fs.up()


def stood_still(fs, data):
    """A client that was stopped for longer than its lease either goes on or gets an error, and its output is true. If
    the file was removed meanwhile, a late write of the client has no effect. (A client that is back before the servers
    have closed its files has them open as before, also one without a name.)"""
    paused, removed = Writer(fs, "/paused"), Writer(fs, "/removed")
    for writer in (paused, removed):
        writer.wait_for(10)
        writer.process.send_signal(signal.SIGSTOP)
    before, stored = fences(fs), datafiles(fs)
    fs.spate("rm", removed.path)
    wait_until(lambda: fences(fs) >= before + 2, "the sessions of the stopped clients expire")
    wait_until(lambda: datafiles(fs) < stored, "the removed file is closed, and its data goes")
    right(fs, paused.path, data, paused.acknowledged(), "while it stands still")
    for writer in (paused, removed):
        writer.process.send_signal(signal.SIGCONT)
    code, said = paused.ended()
    if code == 0:
        check(fs.spate("cat", paused.path) == data, "it succeeded, the content differs")
    else:
        check(said.startswith("steady_writer: "), "no message: " + said)
        right(fs, paused.path, data, paused.acknowledged(), "after it went on")
    code, said = removed.ended()
    check(code == 1 and said.startswith("steady_writer: "), "a write to a removed file: exit %d, %s" % (code, said))
    fs.fails("stat", removed.path)


def nothing_is_left(fs):
    fs.spate("rm", *["spate:/" + name for name in fs.spate("ls", "spate:/").decode().split()])
    wait_until(lambda: datafiles(fs) == 0, "the data of removed files goes")


with Cluster(io=3, env={"SPATE_META_SESSION_LEASE": "%dms" % (LEASE * 1000)}) as fs:
    fs.up()
    data = os.urandom(SIZE)
    with open(fs.root + "/data", "wb") as f:
        f.write(data)
    killed_in_mid_write(fs, data)
    stood_still(fs, data)
    fs.fsck()
    nothing_is_left(fs)
