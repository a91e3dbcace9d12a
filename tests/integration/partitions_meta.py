#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three meta servers, etcd and mirrored data on machines of their own. The meta server that leads is cut off from etcd,
then from the others; then it is cut off together with an io server and a client, which go on to write the file and to make
the names that another client writes and makes. Whatever was acknowledged belongs to one history.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import os
import shutil
import signal
import sys
import time

from cluster import BIN, check, skip, wait_until
from machines import alone
from partition_machines import PATIENT, Networked, Worker
from rival import BLOCK, BLOCKS

METAS = ["node1", "node2", "node3"]  # each with a meta server and an io server
VOTERS = ["node4", "node5", "node6"]  # each with a member of etcd
CLIENT, LONELY = "node7", "node8"
HERE = os.path.dirname(os.path.abspath(__file__))
NAMER = os.path.join(BIN, "steady_namer")


def config(machines):
    text = '[fs]\nid = "%x"\n' % (int.from_bytes(os.urandom(7), "big") | 1)
    text += 'client_key_file = "client.key"\nserver_key_file = "server.key"\n[defaults]\nreplicas = 2\n'
    text += "[meta]\ncoordinator = [%s]\n" % ", ".join('"http://10.1.0.%d:2379"' % machines.number(name) for name in VOTERS)
    for server in range(1, 2 * len(METAS) + 1):
        machine, role = (server - 1) % len(METAS) + 1, "meta" if server <= len(METAS) else "io"
        text += '[[servers]]\nid = %d\nurls = ["tcp://10.1.0.%d:%d"]\nroles = ["%s"]\nkeyval = "/srv/%s/keyval"\n' % (
            server, machine, 7400 if role == "meta" else 7401, role, role)
        if role == "io":
            text += 'storage = ["/srv/io/target"]\n'
    return text


def make(machines):
    folder = machines.root + "/fs"
    os.mkdir(folder)
    with open(folder + "/spate.toml", "w") as f:
        f.write(config(machines))
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


def split(machines):
    """The one that leads, its io server and one client on one side; everything else on the other one."""
    machines.type(CLIENT, "spate mkdir spate:/names; head -c %d /dev/zero | spate put spate:/shared" % (BLOCKS * BLOCK))
    old = wait_for_leader(machines)
    rest = [name for name in METAS if name != old] + VOTERS + [CLIENT]
    rivals = {number: Worker(machines, name, "rival-%d" % number, [sys.executable, HERE + "/rival.py", machines.root + "/fs", str(number), str(number)])
              for number, name in ((1, CLIENT), (2, LONELY))}
    for rival in rivals.values():
        rival.goes_on()
    machines.part([old, LONELY], rest)
    cut = time.monotonic()
    another_leads(machines, old)
    for _ in range(20):
        rivals[1].goes_on()
    healing = time.monotonic()
    machines.part([old, LONELY], rest, machines.pass_on)
    healed(machines)
    for rival in rivals.values():
        for _ in range(5):
            rival.goes_on()
    for rival in rivals.values():
        check(rival.end() == ["ended"], "%s did not end in order" % rival.title)
    reader = Worker(machines, CLIENT, "reader", [sys.executable, HERE + "/rival.py", machines.root + "/fs", "3", "3", "look"])
    reader.end()
    histories = {number: history(worker.lines()) for number, worker in {**rivals, 3: reader}.items()}
    one_history(histories)
    one_owner(machines, histories)
    isolated(histories[1], histories[2], cut, healing)


def history(lines):
    """Returns [(what, began, ended, words)]. A write that was not answered has no end."""
    calls, begun = [], None
    for line in lines:
        what, *words = line.split()
        if what == "begun":
            begun = ("write", float(words[0]), float("inf"), words[1:])
        elif what != "ended":
            begun = None if what == "write" else begun
            calls.append((what, float(words[0]), float(words[1]), words[2:]))
    return calls + ([begun] if begun else [])


def one_history(histories):
    """No read returns what had been overwritten before it began, nor what was never written."""
    writes = {}
    for number, calls in histories.items():
        for what, began, ended, words in calls:
            if what == "write":
                writes.setdefault(int(words[0]), {})[(number, int(words[1]))] = (began, ended)
    count = 0
    for number, calls in histories.items():
        for what, began, ended, words in calls:
            if what != "read":
                continue
            block, value = int(words[0]), (int(words[1]), int(words[2]))
            of_block = dict(writes.get(block, {}))
            of_block[(0, 0)] = (0, 0)
            check(value in of_block, "rival %d has read what nobody wrote: block %d, %s" % (number, block, value))
            check(of_block[value][0] <= ended, "rival %d has read block %d before it was written" % (number, block))
            later = [one for one, (b, e) in of_block.items() if e < began and b > of_block[value][1]]
            check(not later, "rival %d has read block %d as %s, which %s had overwritten" % (number, block, value, later))
            count += 1
    print("  %d reads fit" % count, flush=True)


def one_owner(machines, histories):
    """Each name was made once, and is there."""
    made = [words[0] for calls in histories.values() for what, _, _, words in calls if what == "name"]
    check(len(made) == len(set(made)), "names were made twice: %s" % sorted(name for name in set(made) if made.count(name) > 1)[:10])
    there = machines.type(CLIENT, "spate ls spate:/names").split()
    check(set(made) == set(there), "acknowledged and there differ: %s" % sorted(set(made) ^ set(there))[:10])


def isolated(connected, lonely, cut, healing):
    """Once the others had gone on, the cut off client got no answer."""
    for kinds in (("write", "read"), ("name", "exists")):
        went_on = [ended for what, began, ended, _ in connected if what in kinds and began > cut + 1 and ended < healing]
        check(went_on, "the connected client did no %s" % kinds[0])
    changes = [ended for what, _, ended, _ in connected if what == "name" and cut < ended < healing]
    pauses = sorted(((after - before), after) for before, after in zip([cut] + changes, changes))
    led = pauses[-1][1]  # the first answer of the new one that leads, after the longest pause
    late = [call for call in lonely if call[0] in ("name", "exists", "write") and led < call[2] < healing]
    check(not late, "the cut off client was answered after the others had gone on: %s" % late[:5])
    print("  names went on after %.1f s; the cut off client was answered %d times after the cut" % (led - cut, sum(cut < call[2] < healing for call in lonely)), flush=True)


def main():
    if not etcd_program():
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    alone()
    with Networked([*METAS, *VOTERS, CLIENT, LONELY]) as machines:
        machines.variables["SPATE_FS"] = machines.root + "/fs"
        make(machines)
        chosen = [test for test in (without_etcd, paused, one_way, all_are_killed, split) if not sys.argv[1:] or test.__name__ in sys.argv[1:]]
        for test in chosen:
            test(machines)
        machines.type(CLIENT, "spate fsck; spate fsck --contents")


if __name__ == "__main__":
    main()
