#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""upgrade.py OLDER NEWER: folders with the packages of two versions. A machine with servers and one with a mount get the newer packages while
programs work in the mount and without it. Installing starts and stops nothing; the operator then does what docs/versions.md says. No program
sees an error, and nothing is lost. Afterwards both go back to the older packages, and removing them leaves the data."""
import glob
import json
import os
import sys

sys.path.insert(0, os.environ["SPATE_SOURCE"] + "/tests/integration")
from cluster import check, wait_until  # noqa: E402
from jobs import Jobs  # noqa: E402
from machines import Machines, alone  # noqa: E402

# The layout of docs/operating.md, with all servers on the first machine.
CONFIG = """
mkdir -p /etc/spate
cd /etc/spate
(umask 077; openssl rand -hex 32 > client.key; openssl rand -hex 32 > server.key)
cat > spate.toml <<END
[fs]
id = "$(openssl rand -hex 8)"
client_key_file = "client.key"
server_key_file = "server.key"

[[servers]]
id = 1
urls = ["tcp://servers:7400"]
roles = ["meta"]
keyval = "/var/lib/spate/meta"

[[servers]]
id = 2
urls = ["tcp://servers:7402"]
roles = ["io"]
storage = ["/srv/spate/2"]

[[servers]]
id = 3
urls = ["tcp://servers:7403"]
roles = ["io"]
storage = ["/srv/spate/3"]
END
spate-setup --format
scp -pr /etc/spate client:/etc/
"""
SERVERS = [1, 2, 3]
# The packages' scripts leave services alone if no systemd runs. Here they find one that records its orders and does
# nothing.
LISTENING = """
mkdir -p /run/systemd/system
rm -f /usr/sbin/policy-rc.d
cat > /usr/local/bin/noted <<'END'
#!/bin/sh
echo "$(basename "$0") $*" >> /run/asked
case "$*" in *is-enabled*) echo enabled ;; esac
END
chmod 755 /usr/local/bin/noted
mkdir -p /run/noted
ln -sf /usr/local/bin/noted /run/noted/systemctl
ln -sf /usr/local/bin/noted /run/noted/service
"""
STARTS_OR_STOPS = {"start", "stop", "restart", "try-restart", "reload", "reload-or-restart", "kill", "isolate"}


def install(machines, name, folder):
    """Installs packages. Returns the orders of their scripts to the service manager, which may neither start nor stop
    anything."""
    debs = " ".join(sorted(glob.glob(folder + "/*.deb")))
    machines.type(name, "rm -f /run/asked; PATH=/run/noted:$PATH dpkg -i %s" % debs)
    asked = machines.type(name, "cat /run/asked 2> /dev/null || true").splitlines()
    bad = [line for line in asked if STARTS_OR_STOPS & set(line.split())]
    check(not bad, "the packages' scripts ask for %s" % bad)
    return asked


def software(machines):
    rows = json.loads(machines.type("client", "spate status --json"))
    check(all(row["up"] for row in rows), "not all servers are up: %s" % rows)
    return {row["software"] for row in rows}


def serving(machines):
    """Returns the program files of the processes that serve the mount: the supervisor's and its child's."""
    said = machines.type("client", "for exe in /proc/[0-9]*/exe; do readlink $exe; done 2> /dev/null | grep spate-mount || true")
    return sorted(said.split("\n")[:-1])


def upgrade_servers(machines, folder, before, after, jobs):
    install(machines, "servers", folder)
    check(software(machines) == {"spate " + before}, "servers were restarted by the packages: %s" % software(machines))
    jobs.go_on()
    for server in SERVERS:
        machines.type("servers", "systemctl restart spated@%d" % server)
        jobs.go_on()
    check(software(machines) == {"spate " + after}, "servers after the upgrade: %s" % software(machines))


def upgrade_client(machines, folder, after, jobs):
    """The supervisor keeps its program file, as docs/mount.md says. The process that serves the mount gets the new one."""
    before = serving(machines)
    install(machines, "client", folder)
    gone = "/usr/bin/spate-mount (deleted)"
    check(serving(machines) == [gone] * 2, "the mount was exchanged by the packages: %s, before: %s" % (serving(machines), before))
    jobs.go_on()
    machines.type("client", "spate mount --upgrade /mnt/data")
    check(serving(machines) == ["/usr/bin/spate-mount", gone], "the mount is not upgraded: %s" % serving(machines))
    check(machines.type("client", "spate --version").strip() == "spate " + after, "the client's version")
    jobs.go_on()


def remove(machines, folder):
    machines.type("servers", "systemctl stop spated@1 spated@2 spated@3")
    before = machines.type("servers", "cd /srv/spate && find . | sort | cksum; cksum /etc/spate/*")
    for name in machines.names:
        machines.type(name, "dpkg --purge $(dpkg-query -W -f '${Package} ' '*spate*')")
        machines.type(name, "! command -v spate; id spate; test -s /etc/spate/spate.toml")
    check(machines.type("servers", "cd /srv/spate && find . | sort | cksum; cksum /etc/spate/*") == before, "removing the packages changes data")
    for name in machines.names:
        install(machines, name, folder)
    machines.type("servers", "systemctl start spated@1 spated@2 spated@3")


def version_in(folder):
    names = {os.path.basename(deb).split("_")[1].rpartition("-")[0] for deb in glob.glob(folder + "/*.deb")}
    check(len(names) == 1, "packages of one version are expected in %s: %s" % (folder, names))
    return names.pop()


def main():
    alone()
    older, newer = (os.path.abspath(folder) for folder in sys.argv[1:3])
    first, second = version_in(older), version_in(newer)
    check(first != second, "both are version " + first)
    with Machines(["servers", "client"]) as machines:
        for name in machines.names:
            machines.type(name, LISTENING)
            asked = install(machines, name, older)
            check(asked, "the packages' scripts have not found the service manager")
        machines.type("servers", CONFIG)
        machines.type("client", "mkdir -p /mnt/data; spate mount /mnt/data")
        without_python = [] if glob.glob(older + "/python3-spate_*.deb") else ["python"]
        with Jobs(machines, "client", without_python) as jobs:
            jobs.go_on()
            upgrade_servers(machines, newer, first, second, jobs)
            upgrade_client(machines, newer, second, jobs)
            # Back to the older packages in the same way.
            upgrade_client(machines, older, first, jobs)
            upgrade_servers(machines, older, second, first, jobs)
            jobs.end()
        jobs.look("at their end")
        machines.type("client", "spate umount /mnt/data")
        remove(machines, newer)
        machines.type("client", "spate mount /mnt/data")
        jobs.look("after the packages were removed")
        machines.type("client", "spate umount /mnt/data; spate fsck")
        wait_until(lambda: not serving(machines), "the mount has ended")


main()
