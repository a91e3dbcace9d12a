#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that die, hang or are restarted while `spate cp -r` is at work."""
import os
import signal
import subprocess
import threading
import time

from cluster import Cluster, check, make_tree, same_tree, wait_until

META, IO = 1, 3
copies = 0


def copy_in(fs, *options):
    """Starts a copy of the tree and stops it in the middle. Returns the process and its destination."""
    global copies
    copies += 1
    target = "spate:/copy%d" % copies
    before = len(fs.datafiles(2))
    cp = fs.start("cp", "-r", fs.root + "/tree", target, *options)
    wait_until(lambda: len(fs.datafiles(2)) >= before + 15 or cp.poll() is not None, "the copy begins")
    cp.send_signal(signal.SIGSTOP)
    check(cp.poll() is None, "the copy has ended too early to be disturbed")
    return cp, target


def succeeds(fs, cp, target):
    out, said = cp.communicate(timeout=60)
    check(cp.returncode == 0 and said == b"", "cp: exit %s, said: %s" % (cp.returncode, said.decode()))
    back = "%s/back%d" % (fs.root, copies)
    fs.spate("cp", "-r", target, back)
    same_tree(fs.root + "/tree", back)


def fails(fs, cp, server):
    """The copy must end after its deadline with a message that names the server."""
    begin = time.monotonic()
    out, said = cp.communicate(timeout=60)
    said = said.decode()
    check(cp.returncode == 1, "cp: exit %s, said: %s" % (cp.returncode, said))
    check("server %d (%s)" % (server, fs.url(server)) in said, "cp does not name server %d: %s" % (server, said))
    # A slow machine may take longer than the 3 s after which a command says that it waits.
    errors = [line for line in said.splitlines() if not line.startswith("spate: has waited for server")]
    check(len(errors) == 1, "more than one message: " + said)
    return time.monotonic() - begin


def killed_and_restarted(fs):
    for victims in ([IO], [META], [1, 2, 3, 4]):
        cp, target = copy_in(fs)
        fs.kill(*victims)
        cp.send_signal(signal.SIGCONT)
        time.sleep(0.3)  # it meets the dead servers before they are back
        fs.up()
        succeeds(fs, cp, target)


def stopped_in_order_and_restarted(fs):
    cp, target = copy_in(fs)
    cp.send_signal(signal.SIGCONT)
    fs.spate("down", "-q")
    check(cp.poll() is None, "the copy did not wait for the servers")
    fs.up()
    succeeds(fs, cp, target)
    # Large files, again and again, so that kills cut transfers short.
    data = os.urandom(1 << 20) * 48
    for _ in range(3):
        put = fs.start("put", "spate:/large", stdin=subprocess.PIPE)
        feeder = threading.Thread(target=lambda: (put.stdin.write(data), put.stdin.close()))
        feeder.start()
        wait_until(lambda: fs.run("stat", "spate:/large").returncode == 0, "the file is made")
        fs.spate("down", "-q")
        fs.up()
        feeder.join()
        put.stdin = None
        out, said = put.communicate(timeout=60)
        check(put.returncode == 0 and said == b"", "put: exit %s, said: %s" % (put.returncode, said.decode()))
        check(fs.spate("cat", "spate:/large") == data, "the content differs after a restart")
        fs.spate("rm", "spate:/large")


def killed_and_not_restarted(fs):
    for victim in (IO, META):
        acknowledged = {"spate:/acknowledged-%d-%d" % (victim, i): b"%d" % i * (100 + 70000 * i) for i in range(5)}
        for name, data in acknowledged.items():
            fs.spate("put", name, input=data)
        cp, target = copy_in(fs, "--set", "client.deadline=3s")  # runs out, too, while the copy is stopped
        fs.kill(victim)
        cp.send_signal(signal.SIGCONT)
        took = fails(fs, cp, victim)
        # If every command would have to wait for the server, the message comes at once.
        looked = fs.run("--set", "client.deadline=1s", "ls", "spate:/").stderr
        check(looked.count("server %d (meta) has died; `spate up --dir" % META) == (victim == META), "ls says: " + looked)
        check("has died" not in fs.run("-q", "--set", "client.deadline=1s", "ls", "spate:/").stderr, "-q is not quiet")
        check(took >= 2.9, "it gave up after %.1f s, before its deadline" % took)
        status = fs.run("status")
        check(status.returncode == 1 and status.stdout.decode().count(" up ") == fs.io, "status: " + status.stdout.decode() + status.stderr)
        fs.up()
        for name, data in acknowledged.items():
            check(fs.spate("cat", name) == data, name + " was acknowledged and is not there")
        fs.fsck()
        fs.spate("rm", "-r", target)


def overwritten_while_an_io_server_is_away(fs):
    """The meta server waits for the truncation of a file and names the io server that holds it up."""
    local = fs.root + "/tree/large0"
    for name in ("by-cp", "by-put"):
        fs.spate("cp", local, "spate:/" + name)
    for sig in (signal.SIGKILL, signal.SIGSTOP):
        fs.kill(IO, sig=sig)
        for name, command in (("by-cp", ["cp", local, "spate:/by-cp"]), ("by-put", ["put", "spate:/by-put"])):
            said = fs.fails("--set", "client.deadline=2s", *command, input=b"short")
            check("server %d (%s)" % (IO, fs.url(IO)) in said, "%s does not name server %d: %s" % (name, IO, said))
            check("server %d " % META not in said, "%s names the wrong server: %s" % (name, said))
        if sig == signal.SIGKILL:
            # fsck tries at once to finish them and names the same server.
            done = fs.run("--set", "client.deadline=2s", "fsck", "--repair", "--names-only", "--grace", "0")
            told = done.stdout.decode() + done.stderr
            check("server %d (%s)" % (IO, fs.url(IO)) in told and "server %d " % META not in told, "fsck: " + told)
            fs.up()
        else:
            fs.kill(IO, sig=signal.SIGCONT)
    wait_until(lambda: fs.run("fsck").returncode == 0, "the cuts are finished")
    for name in ("by-cp", "by-put"):
        fs.spate("rm", "spate:/" + name)


def hung(fs):
    for victim in (IO, META):
        cp, target = copy_in(fs, "--set", "client.deadline=3s")
        fs.kill(victim, sig=signal.SIGSTOP)
        cp.send_signal(signal.SIGCONT)
        fails(fs, cp, victim)
        fs.kill(victim, sig=signal.SIGCONT)
        fs.spate("rm", "-r", target)


with Cluster(io=3) as fs:
    make_tree(fs.root + "/tree", 250, large=2)
    fs.up()
    killed_and_restarted(fs)
    stopped_in_order_and_restarted(fs)
    killed_and_not_restarted(fs)
    overwritten_while_an_io_server_is_away(fs)
    hung(fs)
    fs.spate("cp", "-r", "spate:/copy1", fs.root + "/again")
    same_tree(fs.root + "/tree", fs.root + "/again")
    fs.fsck()
