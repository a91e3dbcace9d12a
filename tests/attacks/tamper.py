#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker on the network path between a client and an io server flips a byte of file data. If either side has
auth.protect = "data", the change is detected: no altered data is acknowledged or given to the reader."""
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import Cluster, check
from network_path import Path

SIZE = 3 * 1024 * 1024 + 13
WHERE = 700 * 1024  # offset in one direction of a bulk connection: in the middle of file data
SAID = "altered on the network path"


class TcpPath(Path):
    """Attacks bulk connections only."""

    def worth(self, client, server):
        hello = client.recv(64, socket.MSG_WAITALL)
        server.sendall(hello)
        return len(hello) == 64 and hello[12] > 0  # the channel: docs/wire-tcp.md


class Scene:
    def __init__(self, fs):
        self.fs = fs
        text = open(fs.dir + "/spate.toml").read()
        port = int(re.findall(r"tcp://127\.0\.0\.1:(\d+)", text)[1])
        self.path = TcpPath(port, WHERE)
        # The address that other machines would use: tcp only, through the path.
        text = re.sub(r'"shm://[^"]*",? ?', "", text).replace("127.0.0.1:%d" % port, "127.0.0.1:%d" % self.path.own_port)
        self.far = fs.dir + "/far.toml"
        with open(self.far, "w") as f:
            f.write(text.replace("[auth]\n", '[auth]\nnat = "yes"\n'))
        os.chmod(self.far, 0o600)

    def env(self, protect):
        return {"SPATE_FS": self.far, "SPATE_AUTH_PROTECT": protect}


def data_of(n):
    return bytes((i * n >> 3) & 255 for i in range(SIZE))


def unprotected(scene):
    """Shows that the attack works without protection."""
    whole = data_of(7)
    scene.path.attack("server")
    scene.fs.spate("put", "spate:/bare", input=whole, env=scene.env("control"))
    check(scene.path.flipped == 1, "nothing was flipped")
    scene.path.attack(None)
    got = scene.fs.spate("cat", "spate:/bare")
    check(sum(a != b for a, b in zip(got, whole)) == 1, "the flipped byte is not there: this attacks nothing")


def honest(scene):
    for size in (0, 1, 100 * 1024 + 1, SIZE):
        whole = data_of(11)[:size]
        scene.fs.spate("put", "spate:/honest", input=whole, env=scene.env("data"))
        check(scene.fs.spate("cat", "spate:/honest", env=scene.env("data")) == whole, "read otherwise than written: %d" % size)
        check(scene.fs.spate("cat", "spate:/honest") == whole, "stored otherwise than written: %d" % size)


def write(scene):
    whole = data_of(13)
    scene.path.attack("server")
    said = scene.fs.fails("put", "spate:/written", input=whole, env=scene.env("data"))
    check(scene.path.flipped > 0, "nothing was flipped")
    check(SAID in said, "the writer was told: " + said)
    check(SAID in scene.fs.logs(), "no word in the server's log")
    scene.path.attack(None)
    got = scene.fs.run("cat", "spate:/written").stdout
    altered = [i for i in range(len(got)) if got[i] not in (whole[i], 0)]
    check(not altered, "altered bytes were stored, the first at %s" % altered[:1])


def read(scene):
    whole = data_of(17)
    scene.fs.spate("put", "spate:/read", input=whole)
    scene.path.attack("client")
    got = scene.fs.run("cat", "spate:/read", env=scene.env("data"))
    check(scene.path.flipped > 0, "nothing was flipped")
    check(got.returncode > 0 and SAID in got.stderr, "the reader was told: exit %d %s" % (got.returncode, got.stderr))
    check(whole.startswith(got.stdout), "altered bytes were given to the reader")
    scene.path.attack(None)
    check(scene.fs.spate("cat", "spate:/read", env=scene.env("data")) == whole, "not read when nobody alters it")


def server_insists(scene):
    """The client wants less protection than the server. The server's setting wins."""
    toml = scene.fs.dir + "/spate.toml"
    text = open(toml).read()
    with open(toml, "w") as f:
        f.write(text.replace("[auth]\n", '[auth]\nprotect = "data"\n'))
    scene.fs.spate("down", "-q", "--dir", scene.fs.dir)
    scene.fs.up()
    whole = data_of(19)
    scene.path.attack("server")
    said = scene.fs.fails("put", "spate:/insists", input=whole, env=scene.env("control"))
    check(SAID in said, "the writer was told: " + said)
    said = scene.fs.fails("put", "spate:/insists", input=b"x", env=dict(scene.env("data"), SPATE_AUTH_ALLOW_V1="yes"))
    check("exclude each other" in said, said)


with Cluster(io=1) as fs:
    fs.up()
    scene = Scene(fs)
    for attack in (unprotected, honest, write, read, server_insists):
        attack(scene)
        print("%s ok" % attack.__name__, flush=True)
