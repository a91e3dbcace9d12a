#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Like tamper.py, through libfabric. File data moves by RMA there, so the attack may flip a byte of any connection."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, Cluster, check, free_ports, skip
from network_path import Path

SIZE = 3 * 1024 * 1024 + 13
WHERE = 700 * 1024  # offset in one direction of a connection: in the middle of file data
SAID = "altered on the network path"


class Scene:
    def __init__(self, fs, port):
        self.fs, self.path = fs, Path(port, WHERE)
        # The io server as another machine would know it: by libfabric only, through the path.
        text = open(fs.dir + "/spate.toml").read()
        text, count = re.subn(r'urls = \["ofi\+tcp://127\.0\.0\.1:%d", "[^"]*"\]' % port,
                              'urls = ["ofi+tcp://127.0.0.1:%d"]' % self.path.own_port, text)
        check(count == 1, "the io server is not in spate.toml:\n" + text)
        self.far = fs.dir + "/far.toml"
        with open(self.far, "w") as f:
            f.write(text)
        os.chmod(self.far, 0o600)

    def env(self, protect):
        return {"SPATE_FS": self.far, "SPATE_AUTH_PROTECT": protect}

    def flips(self):
        check(self.path.flipped > 0, "nothing was flipped")


def data_of(n):
    return bytes((i * n >> 3) & 255 for i in range(SIZE))


def honest(scene):
    whole = data_of(11)
    for protect in ("control", "data"):
        scene.fs.spate("put", "spate:/honest", input=whole, env=scene.env(protect))
        check(scene.fs.spate("cat", "spate:/honest", env=scene.env(protect)) == whole, "read otherwise than written: " + protect)


def bare(scene):
    """Shows that the attack works without protection, on a write and on a read."""
    whole = data_of(7)
    scene.path.attack("server")
    scene.fs.spate("put", "spate:/bare", input=whole, env=scene.env("control"))
    scene.flips()
    got = scene.fs.spate("cat", "spate:/bare")
    check(sum(a != b for a, b in zip(got, whole)) == 1, "the flipped byte was not stored: this attacks nothing")
    scene.path.attack("client")
    read = scene.fs.spate("cat", "spate:/bare", env=scene.env("control"))
    scene.flips()
    check(sum(a != b for a, b in zip(read, got)) == 1, "the flipped byte was not read: this attacks nothing")


def write(scene):
    whole = data_of(13)
    scene.path.attack("server")
    said = scene.fs.fails("put", "spate:/written", input=whole, env=scene.env("data"))
    scene.flips()
    check(SAID in said, "the writer was told: " + said)
    check(SAID in scene.fs.logs(), "no word in the server's log")
    got = scene.fs.run("cat", "spate:/written").stdout
    altered = [i for i in range(len(got)) if got[i] not in (whole[i], 0)]
    check(not altered, "altered bytes were stored, the first at %s" % altered[:1])


def read(scene):
    whole = data_of(17)
    scene.fs.spate("put", "spate:/read", input=whole)
    scene.path.attack("client")
    got = scene.fs.run("cat", "spate:/read", env=scene.env("data"))
    scene.flips()
    check(got.returncode > 0 and SAID in got.stderr, "the reader was told: exit %d %s" % (got.returncode, got.stderr))
    check(whole.startswith(got.stdout), "altered bytes were given to the reader")
    scene.path.attack(None)
    check(scene.fs.spate("cat", "spate:/read", env=scene.env("data")) == whole, "not read when nobody alters it")


if not os.path.exists(os.path.join(BIN, "libspate-bmi-ofi.so")):
    skip("built without libfabric-dev")
with Cluster(io=1) as fs:
    fs.up()
    fs.spate("down", "-q", "--dir", fs.dir)
    first = free_ports(2)
    ports = iter((first, first + 1))
    fs.set_urls(lambda tcp: ["ofi+tcp://127.0.0.1:%d" % next(ports), tcp])
    fs.up()
    scene = Scene(fs, first + 1)
    for attack in (honest, bare, write, read):
        attack(scene)
        print("%s ok" % attack.__name__, flush=True)
