#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operating.md, "Several machines", typed command for command on four machines: the commands are taken from the page."""
import json
import os
import sys

from cluster import BIN, check, skip
from machines import Machines, alone, blocks

NAMES = ["node1", "node2", "node3", "node4"]
BY_HAND = "node3"


def installed_from(machines):
    """Makes a folder with `build` in it, as on the page."""
    folder = machines.root + "/source"
    os.mkdir(folder)
    os.symlink(os.path.dirname(os.path.abspath(BIN)), folder + "/build")
    return folder


def main():
    alone()
    if not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(BIN)), "cmake_install.cmake")):
        skip("this is no build that can be installed")
    page = blocks("operating.md")
    once = dict(page)
    check([where for where, _ in page] == ["each", "node1", "each", "node4", "by-hand", "new-server"], "blocks of the page: %s" % [w for w, _ in page])
    with Machines(NAMES) as machines:
        source = installed_from(machines)
        for where, commands in page[:4]:
            for name in NAMES if where == "each" else [where]:
                by_hand = name == BY_HAND and "spate-setup" in commands
                said = machines.type(name, once["by-hand"] if by_hand else commands, source)
        check("node4" in said or "server 4" in said, said)
        check("logs to /var/log/spate" in said, "the mount does not say where it logs: " + said)
        use(machines)
        refusals(machines)
        running = meta_server_pid(machines)
        # Server 4 is stopped and its disk is missing: no new store may be made in its place.
        machines.type("node4", "systemctl stop spated@4; mv /srv/spate/4 /srv/spate/kept")
        machines.type("node4", once["new-server"])
        machines.type("node4", "test ! -e /srv/spate/4; if systemctl is-active spated@4; then exit 1; fi; mv /srv/spate/kept /srv/spate/4; spate-setup")
        two_at_once(machines)
        check(meta_server_pid(machines) == running, "the meta server was restarted")
        # A mount from before the change writes to the new server, and the old data is there.
        machines.type("node4", "for i in 1 2 3 4; do head -c 9000000 /dev/urandom > /mnt/data/after$i; sync /mnt/data/after$i; done")
        said = machines.type("node4", "test $(find /srv/spate/5/d -type f | wc -l) -gt 0; cat /mnt/data/before; spate status")
        check("hello" in said, said)
        # Two machines read the same files by name: they agree even if one has not read the new spate.toml since its start.
        machines.type("node1", "mkdir -p /mnt/data; spate mount /mnt/data; cat /mnt/data/after* | cksum > /mnt/data/sum")
        check(machines.type("node4", "cat /mnt/data/after* | cksum") == machines.type("node4", "cat /mnt/data/sum"), "machines read other data")
        reboot(machines)


def two_at_once(machines):
    """Two commands at once: each waits for its turn before it reads spate.toml, so neither overwrites the other's
    addition."""
    machines.type("node4", """
      exec 9< /etc/spate
      flock 9
      spate server add node4:7406 --storage /srv/spate/6 9<&- & first=$!
      spate server add node4:7407 --storage /srv/spate/7 9<&- & second=$!
      for one in $first $second; do
        until ls -l /proc/$one/fd | grep -q ' /etc/spate$' || [ ! -e /proc/$one/exe ]; do :; done
      done
      flock -u 9
      wait $first
      wait $second""")
    # The first one, whichever it was, has number 6.
    said = machines.type("node4", "spate-setup; cat /etc/spate/spate.toml; systemctl is-active spated@5 spated@6 spated@7")
    check("node4:7406" in said and "node4:7407" in said, said)
    for wrong in ("--server 9", "--server x", "--server", "--nonsense", "a b"):
        done = machines.run("node4", "spate-setup " + wrong)
        check(done.returncode == (1 if wrong == "--server 9" else 2), "spate-setup %s: exit %d, %s" % (wrong, done.returncode, done.stdout))


def meta_server_pid(machines):
    return json.loads(machines.type("node1", "spate status --json"))[0]["pid"]


def use(machines):
    machines.type("node4", "echo hello > /mnt/data/before")
    check(machines.type("node2", "spate cat spate:/before") == "hello\n", "node2 reads other data")
    status = machines.type("node4", "spate mount --status /mnt/data")
    check("\nlog /var/log/spate" in status, status)
    for name, paths in (("node1", ["/var/lib/spate/meta"]), ("node3", ["/srv/spate/3", "/srv/spate/3.keyval"])):
        for path in paths:
            check(machines.type(name, "stat -c %U " + path) == "spate\n", "%s on %s is not the servers'" % (path, name))


def refusals(machines):
    """Each mistake at a start has its own sentence."""
    def says(name, command, *texts):
        done = machines.run(name, command)
        check(done.returncode == 1 and all(text in done.stdout for text in texts), "%s: exit %d, %s" % (command, done.returncode, done.stdout))
    says("node2", "setpriv --reuid spate --regid spate --clear-groups spated --config /etc/spate/spate.toml --server 3 --set x.y=1", "x.y")
    start = "cp -r /etc/spate /run/s; sed -i 's#shm:///run/spate/3\", \"##' /run/s/spate.toml; spated --config /run/s/spate.toml --server 3"
    says("node2", start, "server 3 belongs on another machine: tcp://node3:7400")
    start = "sed -i 's#shm:///run/spate/3#shm:///run/nowhere/3#' /run/s/spate.toml; sed -i 's#urls = ..tcp://node3:7400#urls = [\"shm:///run/nowhere/3#' /run/s/spate.toml; spated --config /run/s/spate.toml --server 3"
    says("node2", start, "server 3 is to listen at shm:///run/nowhere/3, whose folder is not there")
    # Without --format an empty folder stays empty.
    says("node4", "systemctl stop spated@4; mv /srv/spate/4 /srv/spate/kept; spate-setup", "Is its disk mounted?")
    machines.type("node4", "mv /srv/spate/kept /srv/spate/4; spate-setup; spate status")


def reboot(machines):
    """Does what a boot does: /run is empty, and the units start."""
    machines.type("node2", "systemctl stop spated@2; rm -r /run/spate; systemctl start spated@2; spate status; spate cat spate:/before")


main()
