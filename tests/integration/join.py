#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/first-steps.md, "Several machines", typed on four machines: `spate init`, `spate join`, and what they refuse."""
import json
import re

from cluster import check
from machines import Machines, alone, blocks

NAMES = ["node1", "node2", "node3", "node4"]
METRICS = 9464
USER = "exec setpriv --reuid 1500 --regid 1500 --clear-groups env HOME=/srv/me sh -euc '%s'"


def main():
    alone()
    page = dict(blocks("first-steps.md"))
    typed = {where: page[where].replace("/data ", "/srv/data ").replace("/data\n", "/srv/data\n").replace("/tmp/srv/data", "/mnt/data")
             for where in ("init", "join", "join-client", "use")}
    with Machines(NAMES) as machines:
        machines.install()
        for name in NAMES:
            machines.type(name, "mkdir -p /srv/data /srv/me; chown 1500 /srv/data /srv/me")
        no_route(machines)
        said = machines.type("node1", typed["init"].replace("init node1", "init node1 --metrics %d --set defaults.strip_bytes=128KiB" % METRICS))
        tokens = [line.split()[3] for line in said.splitlines() if line.startswith("  spate join ")]
        check(len(tokens) == 2 and "tcp://node1:7400" in said, said)
        server, client = tokens
        refusals(machines, server, client)
        second = number_of(machines.type("node2", typed["join"].replace("TOKEN", server + " --metrics %d --set log.level=debug" % METRICS)))
        # An ordinary user runs the commands. The token appears in no list of processes.
        said = machines.type("node3", USER % ("echo %s | " % server + typed["join"].replace("TOKEN", "-")))
        check("(tcp://10.1.0.3:7400)" in said, said)
        third = number_of(said)
        check(machines.type("node4", typed["join-client"].replace("TOKEN", client)).startswith("This machine uses"), "node4 is no client")
        settings(machines, second)
        keys(machines)
        again(machines, server, client)
        use(machines, typed["use"], [2, second, third])
        one_copy_is_away(machines, third)
        restarts(machines)
        settings(machines, second)
        end(machines)


def number_of(said):
    """Returns the number of the server that joined. Each attempt to join uses up a number, even if it fails."""
    found = re.search(r"^server (\d+) \(.*\) is part of the file system", said, re.M)
    check(found, said)
    return int(found.group(1))


def settings(machines, second):
    """What --metrics and --set say is in the new spate.toml, and holds: each server has its page, also after a restart."""
    shown = machines.type("node1", "spate config show defaults.strip_bytes")
    check("131072" in shown or "128 KiB" in shown, "init --set: " + shown)
    shown = machines.type("node2", "spate config show log.level")
    check("debug" in shown, "join --set: " + shown)
    for name, port in (("node1", METRICS), ("node1", METRICS + 1), ("node2", METRICS + second - 1)):
        ask = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:%d/healthz', timeout=30).read())"
        check("ok" in machines.type(name, 'python3 -c "%s"' % ask % port), "no page at port %d of %s" % (port, name))


def refused(machines, name, command, *texts, secret=None):
    done = machines.run(name, command)
    check(done.returncode != 0, "%s on %s was not refused: %s" % (command, name, done.stdout))
    check(all(text in done.stdout for text in texts), "%s on %s: %s" % (command, name, done.stdout))
    check(secret is None or secret[-64:] not in done.stdout, "the secret is printed: " + done.stdout)


def no_route(machines):
    refused(machines, "node1", "spate init --storage /srv/data", "spate init HOST --storage DIR")
    machines.type("node1", "test ! -e /srv/data/spate")
    refused(machines, "node1", "spate init 'a b' --storage /srv/data", "HOST is a name")
    refused(machines, "node1", "spate init node1", "--storage DIR")
    refused(machines, "node1", "spate init node1 --storage /srv/data --metrics 65536", "metrics.port")
    refused(machines, "node1", "spate init node1 --storage /srv/data --set nonsense.key=1", "nonsense.key")
    machines.type("node1", "test ! -e /srv/data/spate")


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def with_other_key(token):
    """Changes the last key of the token and corrects its checksum."""
    parts = token.split(".")[:-1]
    parts[-1] = "0123456789abcdef" * 4
    text = ".".join(parts)
    return "%s.%08x" % (text, crc32c(text.encode()))


def refusals(machines, server, client):
    """A failed join leaves nothing behind, so that the right command works afterwards."""
    join = "spate join node1 %s --storage /srv/data"
    refused(machines, "node2", join % server[:-1], "no join token", secret=server)
    refused(machines, "node2", join % client, "for machines that store nothing", secret=client)
    refused(machines, "node2", join % with_other_key(server), "key", secret=server)
    refused(machines, "node2", "spate join node1 %s" % with_other_key(client), "key", secret=client)
    refused(machines, "node2", "spate join node1:7999 %s --storage /srv/data" % server, "node1:7999", secret=server)
    refused(machines, "node2", "spate join nowhere.invalid %s --storage /srv/data" % server, "nowhere.invalid", secret=server)
    refused(machines, "node2", "spate join node1 %s --storage /srv/data --host node1" % server, secret=server)
    refused(machines, "node2", "spate join node1 - < /dev/null", "no join token")
    for address in ("tcp://", "node1:x", "tcp://node1:7400/../x", "'no de'", "''"):
        refused(machines, "node2", "spate join %s %s" % (address, client), secret=client)
        refused(machines, "node2", "spate join %s %s --storage /srv/data" % (address, server), secret=server)
    refused(machines, "node2", "spate join node1 %s --enable" % client, "--storage")
    refused(machines, "node2", "spate join node1 %s --metrics 9464" % client, "--storage")
    refused(machines, "node2", join % server + " --metrics 65535", "beyond 65535", secret=server)
    refused(machines, "node2", join % server + " --metrics 65536", "metrics.port", secret=server)
    machines.type("node2", "test ! -e /srv/data/spate; test ! -e /run/home/.local/share/spate")


def keys(machines):
    for name in ("node1", "node2", "node3"):
        check(machines.type(name, "stat -c %a /srv/data/spate/keys/*").split() == ["600", "600"], "others may read keys on " + name)
    check(machines.type("node4", "ls /run/home/.local/share/spate/keys").split() == ["client.key"], "a client has the server key")


def again(machines, server, client):
    refused(machines, "node2", "spate join node1 %s --storage /srv/data" % server, "is of a file system already")
    refused(machines, "node4", "spate join node1 %s" % client, "is of a file system already")
    for words in ("node9", "--metrics 9000", "--set log.level=warn"):
        refused(machines, "node1", "spate init %s --storage /srv/data" % words, "holds a file system already")
    refused(machines, "node1", "spate init node1 --meta node2 --storage /srv/data", "holds a file system already", "is fixed when a file system is made", "--meta in another folder")
    check(server in machines.type("node1", "spate init --storage /srv/data"), "other words are printed the second time")


def use(machines, commands, servers):
    said = machines.type("node4", commands)
    check(said.count(" up ") == 4, said)
    machines.type("node4", "for i in 1 2 3; do head -c 9000000 /dev/urandom > /mnt/data/$i; done; sync /mnt/data/1; cat /mnt/data/? | cksum > /srv/sum")
    check(machines.type("node2", "for i in 1 2 3; do spate cat spate:/$i; done | cksum") == machines.type("node4", "cat /srv/sum"), "node2 reads other data")
    used = [one["server"] for one in json.loads(machines.type("node3", USER % "spate df --json"))["targets"]]
    check(sorted(used) == sorted(servers), "targets of servers %s" % used)


def one_copy_is_away(machines, server):
    machines.type("node4", "spate policy set spate:/ replicas=2; head -c 9000000 /dev/urandom > /mnt/data/both; sync /mnt/data/both; cksum < /mnt/data/both > /srv/both")
    machines.type("node3", USER % "spate down")
    check(machines.type("node1", "spate cat spate:/both | cksum") == machines.type("node4", "cat /srv/both"), "one copy is no copy")
    done = machines.run("node1", "spate status")
    check(done.returncode == 1 and "`spate up` on the machine of tcp://10.1.0.3:7400 starts server %d" % server in done.stdout, done.stdout)
    said = machines.type("node3", USER % "spate up")
    check("Spate is up: 1 server," in said, said)


def restarts(machines):
    machines.type("node2", "spate restart")
    check("up, 1 server" in machines.type("node2", "spate list"), "node2 counts servers of other machines")
    check("on other machines" in machines.type("node4", "spate list"), "node4 counts servers of other machines")
    check("No server" in machines.type("node4", "spate up"), "node4 starts servers of other machines")
    check(machines.type("node1", "for i in 1 2 3; do spate cat spate:/$i; done | cksum") == machines.type("node4", "cat /srv/sum"), "a restart changed data")


def end(machines):
    machines.type("node4", "spate umount /mnt/data")
    said = machines.type("node2", "spate down; spate destroy --yes")
    check("Stopped 1 server" in said, said)
    machines.type("node2", "test ! -e /srv/data/spate")
    done = machines.run("node1", "spate status")
    check(done.returncode == 1 and "1 of 4 servers is down" in done.stdout, done.stdout)


main()
