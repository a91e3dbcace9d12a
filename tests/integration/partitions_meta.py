#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three meta servers, etcd and mirrored data on machines of their own. The meta server that leads is cut off from etcd, then
from the others; it is paused, what it sends is lost, and all machines are killed. Exactly the names exist that were acknowledged.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import os
import shutil
import signal
import sys

from cluster import BIN, check, skip, wait_until
from machines import alone
from partition_machines import PATIENT, Networked, Worker

METAS = ["node1", "node2", "node3"]  # each with a meta server and an io server
VOTERS = ["node4", "node5", "node6"]  # each with a member of etcd
CLIENT = "node7"
NAMER = os.path.join(BIN, "steady_namer")


def config(machines, settings):
    text = '[fs]\nid = "%x"\n' % (int.from_bytes(os.urandom(7), "big") | 1)
    text += 'client_key_file = "client.key"\nserver_key_file = "server.key"\n[defaults]\nreplicas = 2\n'
    text += "[meta]\ncoordinator = [%s]\n" % ", ".join('"http://10.1.0.%d:2379"' % machines.number(name) for name in VOTERS) + settings
    for server in range(1, 2 * len(METAS) + 1):
        machine, role = (server - 1) % len(METAS) + 1, "meta" if server <= len(METAS) else "io"
        text += '[[servers]]\nid = %d\nurls = ["tcp://10.1.0.%d:%d"]\nroles = ["%s"]\nkeyval = "/srv/%s/keyval"\n' % (
            server, machine, 7400 if role == "meta" else 7401, role, role)
        if role == "io":
            text += 'storage = ["/srv/io/target"]\n'
    return text


def make(machines, settings=""):
    folder = machines.root + "/fs"
    os.mkdir(folder)
    with open(folder + "/spate.toml", "w") as f:
        f.write(config(machines, settings))
    for key in ("client", "server"):
        with open("%s/%s.key" % (folder, key), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(os.urandom(32).hex() + "\n")
    for name in VOTERS:
        start_etcd(machines, name)
    for name in METAS:
        machines.type(name, "mkdir -p /srv/meta /srv/io")
        start(machines, name, "--format --serve")
    wait_for_leader(machines)


def start_etcd(machines, name):
    own = "http://10.1.0.%d" % machines.number(name)
    cluster = ",".join("%s=http://10.1.0.%d:2380" % (one, machines.number(one)) for one in VOTERS)
    machines.type(name, "setsid %s --name=%s --data-dir=/srv/etcd --listen-client-urls=%s:2379 --advertise-client-urls=%s:2379 --listen-peer-urls=%s:2380 "
                  "--initial-advertise-peer-urls=%s:2380 --initial-cluster=%s < /dev/null >> /srv/etcd.log 2>&1 &"
                  % (etcd_program(), name, own, own, own, own, cluster))


def etcd_program():
    return os.environ.get("SPATE_ETCD") or shutil.which("etcd")


def start(machines, name, more=""):
    number = METAS.index(name) + 1
    for server in (number, number + len(METAS)):
        machines.type(name, "setsid spated --config %s/fs/spate.toml --server %d %s < /dev/null >> /srv/server-%d.log 2>&1 &"
                      % (machines.root, server, more, server))


def parts(machines, name=CLIENT):
    """Returns what each meta server says that it is, as seen from a machine: {machine: part}."""
    return {METAS[row["server"] - 1]: row["group"].split()[0] for row in machines.status(name)[1] if "group" in row}


def wait_for_leader(machines):
    """Waits until one meta server leads and the others are its backups. Returns its machine."""
    found = {}

    def one_leads():
        found.clear()
        found.update(parts(machines))
        return sorted(found.values()) == ["backup", "backup", "leads"]
    wait_until(one_leads, "one meta server leads and the others are its backups", PATIENT)
    return next(name for name, part in found.items() if part == "leads")


def another_leads(machines, old):
    wait_until(lambda: [name for name, part in parts(machines).items() if part == "leads" and name != old], "another meta server leads", PATIENT)


def healed(machines):
    wait_for_leader(machines)
    machines.whole(CLIENT, CLIENT)


class Names(Worker):
    """A client that makes names on the machine CLIENT."""

    def __init__(self, machines, folder):
        super().__init__(machines, CLIENT, folder, [NAMER, machines.root + "/fs/spate.toml", folder])
        self.machines = machines
        self.goes_on()

    def ends(self):
        """Checks that exactly the names exist that were acknowledged."""
        check(self.end() == ["closed"], "the client did not end in order")
        made = [line.split()[0] for line in self.lines()[:-1]]
        there = self.machines.type(CLIENT, "spate ls spate:/" + self.title).split()
        check(sorted(made) == sorted(there), "acknowledged and there differ: %s" % sorted(set(made) ^ set(there))[:10])


def without_etcd(machines):
    """The one that leads does not reach etcd. Clients notice nothing. Then it does not reach the others either."""
    old = wait_for_leader(machines)
    others = [name for name in METAS if name != old]
    names = Names(machines, "without-etcd")
    machines.part([old], VOTERS)
    print("without etcd: names go on after %.1f s" % names.goes_on(), flush=True)
    names.goes_on()
    machines.part([old], others)
    print("  nor the others: names go on after %.1f s" % names.goes_on(), flush=True)
    another_leads(machines, old)
    names.goes_on()
    machines.part([old], VOTERS + others, machines.pass_on)
    healed(machines)
    names.ends()


def paused(machines):
    old = wait_for_leader(machines)
    names = Names(machines, "paused")
    machines.processes(old, signal.SIGSTOP)
    print("paused: names go on after %.1f s" % names.goes_on(), flush=True)
    another_leads(machines, old)
    machines.processes(old, signal.SIGCONT)
    names.goes_on()
    healed(machines)
    names.ends()


def one_way(machines):
    """What the one that leads sends to one backup is lost."""
    old = wait_for_leader(machines)
    deaf = next(name for name in METAS if name != old)
    names = Names(machines, "one-way")
    machines.drop(old, deaf)
    print("one way: names go on after %.1f s" % names.goes_on(), flush=True)
    names.goes_on()
    machines.pass_on(old, deaf)
    healed(machines)
    names.ends()


def all_are_killed(machines):
    names = Names(machines, "all-are-killed")
    for name in METAS + VOTERS:
        machines.processes(name, signal.SIGKILL)
    for name in (METAS[2], VOTERS[1], METAS[0], VOTERS[2], VOTERS[0], METAS[1]):
        (start if name in METAS else start_etcd)(machines, name)
    print("all are killed: names go on after %.1f s" % names.goes_on(), flush=True)
    healed(machines)
    names.ends()


def main():
    if not etcd_program():
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    alone()
    with Networked([*METAS, *VOTERS, CLIENT]) as machines:
        machines.variables["SPATE_FS"] = machines.root + "/fs"
        make(machines)
        chosen = [test for test in (without_etcd, paused, one_way, all_are_killed) if not sys.argv[1:] or test.__name__ in sys.argv[1:]]
        for test in chosen:
            test(machines)
        machines.fsck(CLIENT)
        machines.fsck(CLIENT, "--contents")


if __name__ == "__main__":
    main()
