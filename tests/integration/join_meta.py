#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metadata that survives the loss of a machine, made by `spate init --meta`, `spate join` and `spate join --vote-only` on
machines of their own. Each machine is killed in turn while a client makes names: no call fails, and no name is lost.

Without words: two machines with data and one that only votes. With --five: three meta servers on five machines, and a
writer of mirrored data beside the client that makes names.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import json
import os
import shutil
import signal
import subprocess
import sys

from cluster import BIN, check, skip, wait_until
from machines import alone, enter
from partition_machines import PATIENT, Networked, Worker

HERE = os.path.dirname(os.path.abspath(__file__))
NAMER = os.path.join(BIN, "steady_namer")
HOME = "/run/home/.local/share/spate"
FOLDERS = {"vote": "/srv/vote", "data": "/srv/data/spate"}


class Site:
    """Machines of `spate init --meta`: `metas` with meta servers, `stores` with data alone, `voters`, and `client`."""

    def __init__(self, machines, metas, stores, voters, client):
        self.machines, self.metas, self.stores, self.voters, self.client = machines, metas, stores, voters, client
        for name in metas + stores:
            machines.type(name, "mkdir -p /srv/data")

    def init(self):
        said = self.machines.type(self.metas[0], "spate init %s --storage /srv/data --replicas 2 --meta %s" % (self.metas[0], ",".join(self.metas[1:])))
        self.words = [line.strip() for line in said.splitlines() if line.startswith("  spate join ")]
        check(len(self.words) == 3 and self.words[2].endswith("--vote-only"), said)

    def join(self, name):
        store, client, vote = self.words
        words = {name: store.replace("/data", "/srv/data") for name in self.metas + self.stores}
        words.update({name: vote + " --dir /srv/vote" for name in self.voters})
        return self.machines.type(name, words.get(name, client))

    def folder(self, name):
        return FOLDERS["vote" if name in self.voters else "data"]

    def up(self, name):
        self.machines.type(name, "spate up -q --dir " + self.folder(name))

    def kill(self, name):
        self.machines.processes(name, signal.SIGKILL)

    def parts(self):
        """Returns what each meta server says that it is: {machine: part}."""
        return {self.metas[row["server"] - 1]: row["group"].split()[0] for row in self.machines.status(self.client)[1] if "group" in row}

    def whole(self):
        """Waits until each meta server leads or holds everything, and all copies are there and equal."""
        wanted = sorted(["leads"] + ["backup"] * (len(self.metas) - 1))
        wait_until(lambda: sorted(self.parts().values()) == wanted, "each meta server holds everything", PATIENT)
        self.machines.whole(self.client, self.metas[0])

    def voters_of(self, name):
        """Returns the rows of `spate coord list` on a machine."""
        done = subprocess.run([*enter(self.machines.pids[name]), "spate", "coord", "list", "--json", "--fs", self.folder(name)],
                              env=self.machines.environment(), stdout=subprocess.PIPE, timeout=600)
        return json.loads(done.stdout) if done.returncode == 0 else []


class Names(Worker):
    """A client that makes names."""

    def __init__(self, site, folder):
        super().__init__(site.machines, site.client, folder, [NAMER, HOME + "/spate.toml", folder])
        self.site = site
        self.goes_on()

    def ends(self):
        check(self.end() == ["closed"], "the client did not end in order")
        made = [line.split()[0] for line in self.lines()[:-1]]
        there = self.site.machines.type(self.site.client, "spate ls spate:/" + self.title).split()
        check(sorted(made) == sorted(there), "acknowledged and there differ: %s" % sorted(set(made) ^ set(there))[:10])


def refused(machines, name, command, text):
    done = machines.run(name, command)
    check(done.returncode != 0 and text in done.stdout, "%s: exit %d, %s" % (command, done.returncode, done.stdout))


def refusals(site):
    machines = site.machines
    init = "spate init %s --storage /srv/data --meta " % site.metas[0]
    refused(machines, site.metas[0], init + "node2,node2", "twice")
    refused(machines, site.metas[0], init + "node2:0", "no HOST")
    refused(machines, site.metas[0], init + "a,b,c,d,e", "1 to 4")
    refused(machines, site.metas[0], init + "node2 --port 65533", "1 to 65532")
    refused(machines, site.metas[0], init + site.metas[0], "spate.toml")  # its own address twice
    machines.type(site.metas[0], "test ! -e /srv/data/spate")


def alone_at_first(site):
    """The first machine serves before another one has joined, also after a restart."""
    machines, first = site.machines, site.metas[0]
    machines.type(first, "spate mkdir spate:/first; spate down -q; spate up -q")  # no file: a second machine is to have its copy
    check(machines.type(first, "spate ls spate:/") == "first\n", "the name is gone after a restart")
    check([row["name"] for row in site.voters_of(first)] == ["etcd-1"], "etcd is no cluster of one")
    for file in ("key.pem", "ca-key.pem"):
        check(machines.type(first, "stat -c %%a /srv/data/spate/coord/tls/%s" % file) == "600\n", file + " can be read by others")


def begins_no_second_cluster(site):
    """The settings with which etcd began would let it begin anew when its records are lost."""
    name = site.metas[0]
    settings = json.loads(site.machines.type(name, "cat /srv/data/spate/coord/etcd-1.json"))
    check(settings["initial-cluster-state"] == "existing", "etcd may begin a second cluster: %s" % settings)


def an_interrupted_join(site, name):
    """The machine is lost as soon as etcd counts it. The others go on, and the same command completes the join."""
    first = site.metas[0]
    joining = subprocess.Popen([*enter(site.machines.pids[name]), "sh", "-c", "exec " + site.words[0].replace("/data", "/srv/data")],
                               env=site.machines.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: len(site.voters_of(first)) == 2 or joining.poll() is not None, "etcd counts the machine", PATIENT)
    check(joining.poll() is None, "the join has ended before: %s" % (joining.poll() is None or joining.stdout.read()))
    joining.kill()
    site.kill(name)
    joining.wait()
    row = next(row for row in site.voters_of(first) if not row["name"] or row["name"] != "etcd-1")
    check(not row["votes"] and (row["name"] or row["state"] == "not started yet"), "the new member: %s" % row)
    site.machines.type(first, "spate coord remove " + (row["id"] if row["name"] else row["url"]))  # it would keep others from joining
    check([one["name"] for one in site.voters_of(first)] == ["etcd-1"], "etcd still counts the machine")
    check(site.machines.type(first, "spate mkdir spate:/meanwhile; spate ls spate:/").split() == ["first", "meanwhile"], "the first machine does not go on")
    site.join(name)


def a_client_votes(site, name):
    """A machine that uses the file system already becomes a voter, in the folder that it has."""
    site.machines.type(name, site.words[1] + " --dir /srv/vote")
    site.join(name)


def joins_again(site, name):
    """A command that is typed twice changes nothing."""
    before = sorted(row["name"] for row in site.voters_of(site.metas[0]))
    site.join(name)
    check(sorted(row["name"] for row in site.voters_of(site.metas[0])) == before, "the second join has changed the members")


def each_is_killed(site, names, workers):
    for name in names:
        print("%s is killed" % name, flush=True)
        site.kill(name)
        for worker in workers:
            print("  goes on after %.1f s" % worker.goes_on(), flush=True)
            worker.goes_on()
        site.up(name)
        site.whole()


def another_one_leads(site):
    """The meta server that leads is killed, and its machine's io server goes on: the next one that leads knows it."""
    def io_servers():
        return sorted(row["server"] for row in site.machines.status(site.client)[1] if row.get("roles") == "io" and row["up"])
    before, row = io_servers(), next(row for row in site.machines.status(site.client)[1] if row.get("group", "").startswith("leads"))
    old = site.metas[row["server"] - 1]
    check(len(before) == len(site.metas) + len(site.stores), "io servers: %s" % before)
    site.machines.type(old, "kill -9 %d" % int(site.machines.type(old, "cat /srv/data/spate/run/server-%d.pid" % row["server"]).split()[0]))
    wait_until(lambda: [name for name, part in site.parts().items() if part == "leads" and name != old], "another one leads", PATIENT)
    check(io_servers() == before, "io servers: %s, before: %s" % (io_servers(), before))
    check(site.machines.type(site.client, "spate cat spate:/second") == "two\n", "the file cannot be read")
    site.up(old)
    site.whole()


def votes(site, count):
    rows = site.voters_of(site.metas[0])
    check(len(rows) == count and all(row["votes"] and row["state"] == "up" for row in rows), "members of etcd: %s" % rows)


def metadata_is_lost(site, name, other):
    """A machine loses the records of etcd and of its meta server. The same command gets them anew."""
    site.kill(name)
    site.machines.type(name, "rm -r /srv/data/spate/coord/etcd-2 /srv/data/spate/server-2")
    refused(site.machines, name, "spate up -q --dir /srv/data/spate", "the records of etcd-2 are lost")
    check(not site.machines.run(name, "pgrep -x -r D,R,S etcd").stdout.strip(), "etcd runs without its records")
    site.join(name)
    votes(site, len(site.metas) + len(site.voters))
    wait_until(lambda: sorted(site.parts().values()) == ["backup", "leads"], "the meta server holds everything", PATIENT)
    site.kill(other)
    wait_until(lambda: site.parts().get(name) == "leads", "the meta server leads", PATIENT)
    check("first" in site.machines.type(site.client, "spate ls spate:/").split(), "the names are gone")
    site.up(other)
    wait_until(lambda: sorted(site.parts().values()) == ["backup", "leads"], "both hold everything", PATIENT)


def the_only_copy(site, name, other):
    """No empty store takes the place of the only one that holds everything."""
    site.kill(other)
    wait_until(lambda: site.parts().get(name) == "leads", "the meta server leads alone", PATIENT)
    site.machines.type(site.client, "spate mkdir spate:/alone")
    number = site.metas.index(name) + 1
    site.kill(name)
    site.up(other)
    site.machines.type(name, "cd /srv/data/spate; mv server-%d /srv/aside" % number)
    refused(site.machines, name, site.words[0].replace("/data", "/srv/data"), "an empty one would take its place")
    site.machines.type(name, "mv /srv/aside /srv/data/spate/server-%d" % number)
    site.up(name)
    site.whole()
    check("alone" in site.machines.type(site.client, "spate ls spate:/").split(), "a name is gone")


def the_first_loses_etcd(site, name):
    """The first machine loses the records of etcd alone. Its etcd begins no second cluster, and gets them anew."""
    site.kill(name)
    site.machines.type(name, "rm -r /srv/data/spate/coord/etcd-1")
    refused(site.machines, name, "spate up -q --dir /srv/data/spate", "the records of etcd-1 are lost")
    site.join(name)
    votes(site, len(site.metas) + len(site.voters))
    site.whole()


def etcd_ends(site, name, forgets=True):
    """The member of etcd of a machine ends, and with `forgets` its records are lost. The servers go on."""
    site.machines.type(name, "pkill -f 'coord ru[n]'; while pgrep -x -r D,R,S etcd; do sleep 0.05; done" + ("; rm -r %s/coord/etcd-*[0-9]" % site.folder(name) if forgets else ""))


def new_etcd(site, name, others):
    """Begins a new etcd on a machine, and gives the others their votes."""
    begin = "spate coord begin --fs " + site.folder(name)
    # A member notices within some seconds that it has no majority.
    wait_until(lambda: site.machines.run(name, begin).returncode == 0, "a new etcd begins", PATIENT)
    refused(site.machines, name, begin, "most members of etcd are there")
    site.machines.type(name, "spate coord restore --fs " + site.folder(name))
    for other in others:
        site.join(other)
    votes(site, len(site.metas) + len(site.voters))
    site.whole()


def a_slow_etcd_begins(site, name):
    """An etcd that is slow to make its records has begun: it does not begin again without them."""
    folder = site.folder(name)
    begin = "SPATE_ETCD=%s/slow_etcd.py spate coord begin --fs %s" % (HERE, folder)
    wait_until(lambda: site.machines.run(name, begin).returncode == 0, "a slow etcd begins", PATIENT)
    site.machines.type(name, "pkill -f 'coord ru[n]'; while pgrep -f slow_etc[d]; do sleep 0.05; done; rm -r %s/coord/etcd-*[0-9]" % folder)


def etcd_is_lost(site, all_of_them, names):
    """Most members of etcd lose their records, or all. Clients go on with the meta server that leads, and a new etcd is begun. Afterwards
    another meta server takes over as before."""
    first, second, third = site.metas + site.voters
    refused(site.machines, first, "spate coord begin --fs " + site.folder(first), "most members of etcd are there")
    etcd_ends(site, second)
    etcd_ends(site, third)
    if all_of_them:
        etcd_ends(site, first)
    names.goes_on()
    if all_of_them:
        a_slow_etcd_begins(site, second)
    refused(site.machines, second, "spate up -q --dir " + site.folder(second), "spate coord begin")
    # The other one that has kept its records runs on with them, and is of no use.
    new_etcd(site, second, [third, first] if all_of_them else [first, third])
    names.goes_on()
    old = next(name for name, part in site.parts().items() if part == "leads")
    site.kill(old)
    names.goes_on()
    site.up(old)
    site.whole()


def another_folder(site, name):
    """A voter that runs is not taken for lost, only because the command names another folder."""
    refused(site.machines, name, site.words[0].replace("/data", "/srv/other"), "its records are not in this folder")
    votes(site, len(site.metas) + len(site.voters))


def a_voter_is_removed(site, name):
    site.kill(name)
    done = site.machines.type(site.metas[0], "spate coord remove etcd-10.1.0.%d" % site.machines.number(name))
    check("no vote any more" in done, done)
    votes(site, len(site.metas))
    site.join(name)  # it has records of a member that was removed
    votes(site, len(site.metas) + 1)


def three_machines(machines):
    site = Site(machines, ["node1", "node2"], [], ["node3"], "node4")
    refusals(site)
    site.init()
    alone_at_first(site)
    begins_no_second_cluster(site)
    an_interrupted_join(site, "node2")
    refused(machines, "node2", site.words[2] + " --dir /srv/vote", "--storage goes here instead")
    a_client_votes(site, "node3")
    site.join("node4")
    votes(site, 3)
    joins_again(site, "node2")
    joins_again(site, "node3")
    another_folder(site, "node2")
    machines.type("node4", "echo two | spate put spate:/second")
    site.whole()
    another_one_leads(site)
    names = Names(site, "names")
    each_is_killed(site, ["node1", "node2", "node3"], [names])
    etcd_is_lost(site, False, names)
    etcd_is_lost(site, True, names)
    names.ends()
    said = machines.type("node3", "spate down --dir /srv/vote")
    check("Stopped 1 member of etcd" in said, said)
    site.up("node3")
    a_voter_is_removed(site, "node3")
    metadata_is_lost(site, "node2", "node1")
    the_first_loses_etcd(site, "node1")
    the_only_copy(site, "node2", "node1")


def five_machines(machines):
    site = Site(machines, ["node1", "node2", "node3"], ["node4", "node5"], [], "node6")
    site.init()
    for name in ("node2", "node3", "node4", "node5", "node6"):
        said = site.join(name)
        check(("None of these addresses" in said) == (name in site.stores), said)
    votes(site, 3)
    names = Names(site, "names")
    writer = Worker(machines, site.client, "writer", [sys.executable, HERE + "/mirror_worker.py", "/file", "1", HOME])
    writer.goes_on()
    site.whole()
    each_is_killed(site, site.metas + site.stores, [names, writer])
    names.ends()
    check(writer.end()[0] == "longest", "the writer did not end in order")


def main():
    alone()
    etcd = os.environ.get("SPATE_ETCD") or shutil.which("etcd")
    if not etcd:
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    five = "--five" in sys.argv
    with Networked(["node%d" % number for number in range(1, 7 if five else 5)], {"SPATE_ETCD": etcd}) as machines:
        (five_machines if five else three_machines)(machines)


main()
