#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several meta servers, one of which leads: it is killed, stopped, ended in order, and etcd goes away, under a load of changes.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import BIN, SPATE, SPATED, check, free_ports, skip, wait_until

METAS, IOS, VOTES = 3, 2, 3
NAMER = os.path.join(BIN, "steady_namer")
# After 2 s of silence another member takes over. Then clients have to find it. A loaded machine takes longer.
LONGEST_PAUSE = float(os.environ.get("SPATE_LONGEST_PAUSE", "12"))


def etcd_program():
    return os.environ.get("SPATE_ETCD") or shutil.which("etcd")


class Group:
    """The file system and the etcd cluster that it uses."""

    def __init__(self):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = tempfile.mkdtemp(prefix="spate-test-", dir=memory)
        self.ports = free_ports(METAS + IOS + 2 * VOTES + 4)
        self.env = dict(os.environ, HOME=self.root, XDG_STATE_HOME=self.root + "/state", SPATE_FS=self.root)
        self.children = {}

    def __enter__(self):
        for number in range(VOTES):
            self.start_etcd(number)
        self.write_config()
        for server in range(1, METAS + IOS + 1):
            self.start(server, "--format", "--serve")
        return self

    def __exit__(self, kind, error, trace):
        ended = {}
        for name, child in self.children.items():
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
                child.terminate()
        for name, child in self.children.items():
            try:
                ended[name] = child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                child.kill()
                ended[name] = child.wait()
        if error is not None:
            print(self.logs(), file=sys.stderr)
        shutil.rmtree(self.root, ignore_errors=True)
        bad = {name: code for name, code in ended.items() if name.startswith("server") and code not in (0, -signal.SIGKILL)}
        check(error is not None or not bad, "servers did not end in order: %s" % bad)
        return False

    def logs(self):
        out = ""
        for name in sorted(os.listdir(self.root)):
            if name.startswith("server-") and name.endswith(".log"):
                with open(os.path.join(self.root, name), errors="replace") as f:
                    out += "--- %s\n%s" % (name, f.read()[-20000:])
        return out

    def etcd_url(self, number, peer=False):
        return "http://127.0.0.1:%d" % (self.ports + METAS + IOS + number + (VOTES if peer else 0))

    def start_etcd(self, number):
        cluster = ",".join("m%d=%s" % (i, self.etcd_url(i, True)) for i in range(VOTES))
        with open("%s/etcd-%d.log" % (self.root, number), "ab") as log:
            self.children["etcd %d" % number] = subprocess.Popen(
                [etcd_program(), "--name=m%d" % number, "--data-dir=%s/etcd-%d" % (self.root, number),
                 "--listen-client-urls=" + self.etcd_url(number), "--advertise-client-urls=" + self.etcd_url(number),
                 "--listen-peer-urls=" + self.etcd_url(number, True),
                 "--initial-advertise-peer-urls=" + self.etcd_url(number, True), "--initial-cluster=" + cluster],
                stdout=log, stderr=log)

    def write_config(self):
        text = '[fs]\nid = "%x"\n' % (int.from_bytes(os.urandom(7), "big") | 1)
        text += 'client_key_file = "client.key"\nserver_key_file = "server.key"\n'
        text += "[meta]\ncoordinator = [%s]\n" % ", ".join('"%s"' % self.etcd_url(i) for i in range(VOTES))
        for server in range(1, METAS + IOS + 1):
            role = "meta" if server <= METAS else "io"
            text += '[[servers]]\nid = %d\nurls = ["tcp://127.0.0.1:%d"]\nroles = ["%s"]\nkeyval = "server-%d/keyval"\n' % (
                server, self.ports + server - 1, role, server)
            if role == "io":
                text += 'storage = ["server-%d/target"]\n' % server
            os.mkdir("%s/server-%d" % (self.root, server))
        with open(self.root + "/spate.toml", "w") as f:
            f.write(text)
        for key in ("client", "server"):
            with open("%s/%s.key" % (self.root, key), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
                f.write(os.urandom(32).hex() + "\n")

    def start(self, server, *more):
        with open("%s/server-%d.log" % (self.root, server), "ab") as log:
            self.children["server %d" % server] = subprocess.Popen(
                [SPATED, "--config", self.root + "/spate.toml", "--server", str(server), *more], env=self.env, stdout=log, stderr=log)

    def signal(self, name, sig):
        self.children[name].send_signal(sig)
        if sig == signal.SIGKILL:
            self.children[name].wait()

    def run(self, *args, input=None, timeout=60):
        return subprocess.run([SPATE, *args], env=self.env, input=input, timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def spate(self, *args):
        done = self.run(*args)
        check(done.returncode == 0, "spate %s: exit %d: %s" % (" ".join(args), done.returncode, done.stderr.decode()))
        return done.stdout.decode()

    def parts(self):
        """Returns the role that each meta server reports."""
        done = self.run("status", "--json")
        return {row["server"]: row["group"] for row in json.loads(done.stdout or b"[]") if "group" in row}

    def some_leader(self, parts=None):
        """Returns the meta server that leads according to the servers' own reports, or 0."""
        parts = self.parts() if parts is None else parts
        leads = [server for server, part in parts.items() if part.startswith("leads")]
        check(len(leads) <= 1, "several servers say that they lead: %s" % parts)
        return leads[0] if leads else 0

    def leader(self):
        """Returns the leader if all others are its backups, or else 0."""
        parts = self.parts()
        whole = list(parts.values()).count("backup") == METAS - 1
        return self.some_leader(parts) if whole else 0

    def wait_for_leader(self):
        """Waits until one server leads and the others hold all records. Returns the leader."""
        found = []
        wait_until(lambda: found.append(self.leader()) or found[-1] != 0, "a meta server leads and the others are its backups", 60)
        return found[-1]


class Namer:
    """A client that creates names all the time."""

    def __init__(self, group, folder):
        self.folder = folder
        self.log = "%s/%s.out" % (group.root, folder)
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen([NAMER, group.root + "/spate.toml", folder], env=group.env, stdin=subprocess.PIPE,
                                          stdout=out, stderr=subprocess.PIPE)
        group.children["namer " + folder] = self.child

    def lines(self):
        with open(self.log) as f:
            return [line.split() for line in f.read().split("\n")[:-1]]

    def goes_on(self):
        """Waits until more names have been acknowledged."""
        before = len(self.lines())
        wait_until(lambda: len(self.lines()) > before + 20 or self.child.poll() is not None, "changes go on", 60)
        check(self.child.poll() is None, "the client has ended: %s" % (self.child.stderr.read() if self.child.poll() is not None else ""))

    def end(self, group):
        """Checks that exactly the acknowledged names exist. Returns the longest call, in s."""
        self.child.stdin.close()
        said = self.child.stderr.read()
        check(self.child.wait(timeout=60) == 0, "the client failed: %s" % said.decode())
        lines = self.lines()
        check(lines[-1] == ["closed"], "the client did not end in order")
        made = [line[0] for line in lines[:-1]]
        there = group.spate("ls", "spate:/" + self.folder).split()
        check(sorted(there) == sorted(made), "acknowledged and there differ: %s" % sorted(set(there) ^ set(made))[:10])
        return max(int(line[1]) for line in lines[:-1]) / 1000


def under_load(group, what, disturb):
    """Runs `disturb` while a client changes names."""
    namer = Namer(group, what.replace(" ", "-"))
    namer.goes_on()
    restore = disturb()
    namer.goes_on()
    namer.goes_on()
    restore()
    group.wait_for_leader()  # the server that was away holds all records again
    namer.goes_on()
    pause = namer.end(group)
    print("%s: longest call %.2f s" % (what, pause))
    check(pause <= LONGEST_PAUSE, "%s: a call took %.2f s" % (what, pause))


def killed(group):
    leader = group.wait_for_leader()

    def disturb():
        group.signal("server %d" % leader, signal.SIGKILL)
        return lambda: group.start(leader)
    under_load(group, "killed", disturb)


def stopped(group):
    leader = group.wait_for_leader()

    def disturb():
        group.signal("server %d" % leader, signal.SIGSTOP)
        return lambda: group.signal("server %d" % leader, signal.SIGCONT)
    under_load(group, "stopped", disturb)


def cannot_write(group):
    """The primary's disk refuses writes. Another server takes the lead, whether the primary's process goes on or is
    restarted."""
    leader = group.wait_for_leader()
    name = "server %d" % leader

    def disturb():
        child = group.children[name]
        unlimited = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
        wait_until(lambda: group.some_leader() not in (0, leader), "another meta server leads", 60)

        def restore():
            if child.poll() is None:
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, unlimited)
            # A server that cannot write may also end: a RocksDB built with assertions ends the process.
            wait_until(lambda: child.poll() is not None or group.parts().get(leader) == "backup", "server %d is back" % leader, 60)
            if child.poll() is not None:
                group.start(leader)
        return restore
    under_load(group, "cannot write", disturb)


def ended_in_order(group):
    leader = group.wait_for_leader()

    def disturb():
        group.signal("server %d" % leader, signal.SIGTERM)
        check(group.children["server %d" % leader].wait(timeout=30) == 0, "the primary did not end in order")
        return lambda: group.start(leader)
    under_load(group, "ended in order", disturb)


def a_backup_is_killed(group):
    leader = group.wait_for_leader()
    backup = leader % METAS + 1

    def disturb():
        group.signal("server %d" % backup, signal.SIGKILL)
        return lambda: group.start(backup)
    under_load(group, "a backup is killed", disturb)


def without_etcd(group):
    def disturb():
        for number in range(VOTES):
            group.signal("etcd %d" % number, signal.SIGKILL)
        time.sleep(3)  # longer than all timeouts of the group: no member may seem lost

        def restore():
            for number in range(VOTES):
                group.start_etcd(number)
        return restore
    group.wait_for_leader()
    under_load(group, "without etcd", disturb)


def a_disk_is_replaced(group):
    """Every meta server in turn loses its disk. In the end a server has the records from the
    beginning only because others copied them to it."""
    before = sorted(group.spate("ls", "spate:/").split())
    for server in range(1, METAS + 1):
        group.wait_for_leader()
        group.signal("server %d" % server, signal.SIGKILL)
        shutil.rmtree("%s/server-%d" % (group.root, server))
        os.mkdir("%s/server-%d" % (group.root, server))
        group.start(server, "--format", "--serve")
    group.wait_for_leader()
    check(sorted(group.spate("ls", "spate:/").split()) == before, "names differ after all disks were replaced")


def all_are_restarted(group):
    before = sorted(group.spate("ls", "spate:/").split())
    for server in range(1, METAS + 1):
        group.signal("server %d" % server, signal.SIGKILL)
    for server in range(1, METAS + 1):
        group.start(server)
    group.wait_for_leader()
    check(sorted(group.spate("ls", "spate:/").split()) == before, "names differ after a restart of all meta servers")


def up_and_down(group):
    """The same test through `spate up`, with an etcd that somebody else runs, and `spate down`."""
    folder = group.root + "/up"
    first = group.ports + METAS + IOS + 2 * VOTES
    coordinator = "meta.coordinator=" + ",".join(group.etcd_url(i) for i in range(VOTES))
    up = ["up", "-q", "--dir", folder, "--port", str(first)]
    group.spate(*up, "--meta", "3", "--io", "1", "--set", coordinator)
    try:
        group.run("put", "--fs", folder, "spate:/a", input=b"kept")

        def parts():
            done = group.run("status", "--fs", folder, "--json")
            return {row["server"]: (row["group"], row["pid"]) for row in json.loads(done.stdout) if "group" in row}

        def is_whole():
            return sorted(part.split()[0] for part, _ in parts().values()) == ["backup", "backup", "leads"]
        wait_until(is_whole, "one leads and two are backups", 60)
        os.kill(next(pid for part, pid in parts().values() if part.startswith("leads")), signal.SIGKILL)
        check(group.spate("cat", "--fs", folder, "spate:/a") == "kept", "the file differs when another one leads")
        group.spate(*up)
        wait_until(is_whole, "the one that was killed is a backup", 60)
    finally:
        group.spate("down", "-q", "--dir", folder)


TESTS = [up_and_down, killed, stopped, cannot_write, ended_in_order, a_backup_is_killed, without_etcd, a_disk_is_replaced, all_are_restarted]


def main():
    if not etcd_program():
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    chosen = [test for test in TESTS if not sys.argv[1:] or test.__name__ in sys.argv[1:]]
    with Group() as group:
        for test in chosen:
            test(group)
        done = group.run("fsck", timeout=120)
        check(done.returncode == 0, "fsck is not clean: %s%s" % (done.stdout.decode(), done.stderr.decode()))


main()
