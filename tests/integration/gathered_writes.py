#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mount gathers small writes while its processes and the io servers are killed, and while it is upgraded. Nothing that was acknowledged is
lost, and nothing is there twice, also when the mount is given up after five crashes. If supervisor and server are killed together, all that was synced is there, and a prefix of the rest."""
import os
import signal

from cluster import Cluster, alive, check, wait_until
from gathering import IN_A_FILE, Mount, Writer, mounts_of, upgrade


def start(mount, names, **more):
    writers = [Writer(mount.path, name, mount.fs.root + "/told-" + name, **more) for name in names]
    for writer in writers:
        writer.goes_on()
    return writers


def end(mount, writers, other):
    with open(mount.path + "/enough", "xb"):
        pass
    for writer in writers:
        writer.end()
        writer.compare(other.path, "equal")
        writer.compare(mount.path, "equal")
    os.unlink(mount.path + "/enough")
    check(mount.number("gathered_requests_lost") == 0, "gathered requests have failed: " + mount.log())


def kill_server(mount, waits=True):
    if waits:
        mount.waits_with_gathered()
    before, = mount.kill("server")
    wait_until(lambda: mount.server() != before, "another process serves the mount", 60)


def kill_io(fs):
    """Its disk has what it had accepted. Another process of it starts."""
    fs.kill(3)
    fs.up()


def stop_io(fs, mount, event):
    """Something happens while gathered writes cannot be sent."""
    pids = fs.pids()
    fs.kill(2, 3, sig=signal.SIGSTOP)
    mount.waits_with_gathered()
    event()
    for server in 2, 3:
        os.kill(pids[server], signal.SIGCONT)


def under_load(fs, mount, other):
    writers = start(mount, ["w0", "w1"])
    kill = lambda: mount.kill("server")  # the next process waits for the io servers before it serves
    for event in (lambda: kill_server(mount), lambda: upgrade(mount), lambda: (mount.waits_with_gathered(), kill_io(fs)), lambda: stop_io(fs, mount, kill),
                  lambda: upgrade(mount)):
        event()
        for writer in writers:
            writer.goes_on()
    end(mount, writers, other)
    check("were taken over" in mount.log(), "no process has sent what another one had gathered:\n" + mount.log())


def without_supervisor(mount, other):
    """The server goes on alone, and gathers no more: nobody else would send it."""
    writers = start(mount, ["alone0", "alone1"], may_fail=True)
    server = mount.server()
    mount.kill("supervisor")
    wait_until(lambda: "the supervisor of the mount has gone" in mount.log(), "the server notices it", 60)
    for writer in writers:
        writer.goes_on(IN_A_FILE + 200)  # also a new file
    os.kill(server, signal.SIGKILL)
    for writer in writers:
        writer.end()
        writer.compare(other.path, "acknowledged")


def crashes_too_often(mount, other):
    """After the fifth crash another process sends what was gathered, and the mount ends."""
    for _ in range(4):
        kill_server(mount, waits=False)
    writers = start(mount, ["crash0", "crash1"], may_fail=True)
    mount.waits_with_gathered()
    supervisor = mount.number("supervisor")
    mount.kill("server")
    for writer in writers:
        writer.end()
        writer.compare(other.path, "acknowledged")
    wait_until(lambda: not alive(supervisor), "the supervisor ends", 60)
    for words in "gathered writes of the mount were drained", "the mount is given up", "were taken over":
        check(words in mount.log(), "the log does not say \"%s\":\n%s" % (words, mount.log()))
    check("gathered writes are lost" not in mount.log(), "something is lost:\n" + mount.log())


def both(mount, other):
    writers = start(mount, ["both0", "both1"], step=300, may_fail=True)
    wait_until(lambda: all(writer.told()[1] > 0 for writer in writers), "each writer has synced", 60)
    mount.waits_with_gathered()
    mount.kill("supervisor", "server")
    for writer in writers:
        writer.end()
        writer.compare(other.path, "synced")
        with open("%s/%s.0.data" % (other.path, writer.name), "r+b") as file:  # waits for the fence of the dead session
            file.write(b"by another")


with Cluster(io=2, env={"SPATE_META_SESSION_LEASE": "4 s"}) as cluster, mounts_of(cluster) as mounts:
    cluster.up()
    other = Mount(cluster, "other")
    mounts.append(other)
    for test in (lambda m: under_load(cluster, m, other), lambda m: without_supervisor(m, other), lambda m: crashes_too_often(m, other), lambda m: both(m, other)):
        gathers = Mount(cluster, "gathers%d" % len(mounts), "nodelegate")
        mounts.append(gathers)
        gathers.is_ready()
        test(gathers)
