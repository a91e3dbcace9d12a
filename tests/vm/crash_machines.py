# SPDX-License-Identifier: Apache-2.0
"""The machines of crash_files.py, in the guest of crash.py. A machine is a server that sees a boot id of its own, and a disk of
crash_disk.py. If there are several meta servers, each of their machines has a member of etcd."""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import uuid

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests", "integration"))
from cluster import SPATE, SPATED, check, stands_still, wait_until
from crash_disk import Disk
from crash_servers import METAS, SERVERS

PATIENT = 300  # s: the processor is emulated
PORT, ETCD_PORT = 7000, 7100
ROOT = "/tmp/fs"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def spate(*args, codes=(0,)):
    done = subprocess.run([SPATE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENT)
    check(done.returncode in codes, "spate %s: exit %d: %s%s" % (" ".join(args), done.returncode, done.stdout.decode(), done.stderr.decode()))
    return done.stdout.decode()


class Server:
    def __init__(self, number):
        self.number, self.child, self.etcd = number, None, None
        self.disk = Disk("server-%d" % number, "/dev/vda", number - 1, "%s/server-%d" % (ROOT, number))
        self.disk.mount()
        self.boot()

    def boot(self):
        with open("%s/boot-%d" % (ROOT, self.number), "w") as f:
            f.write(str(uuid.uuid4()))

    def start(self, *more, env=None):
        """Returns when it listens. `env`: further variables of its environment."""
        if len(METAS) > 1 and self.number in METAS:
            self.start_etcd()
        words = [SPATED, "--config", ROOT + "/spate.toml", "--server", str(self.number), *more]
        script = 'mount --bind %s/boot-%d %s && exec "$@"' % (ROOT, self.number, BOOT_ID)
        with open(self.log_file(), "ab") as log:
            self.child = subprocess.Popen(["unshare", "-m", "--propagation", "slave", "sh", "-c", script, "sh", *words], stdout=log, stderr=log,
                                          env=dict(os.environ, **(env or {})))
        wait_until(self.listens, "server %d listens" % self.number, PATIENT)

    def start_etcd(self):
        """The times are for an emulated processor."""
        peers = {number: "http://127.0.0.1:%d" % (ETCD_PORT + 20 + number) for number in METAS}
        own, url = peers[self.number], etcd_url(self.number)
        words = ["etcd", "--name", "m%d" % self.number, "--data-dir", "%s/server-%d/etcd" % (ROOT, self.number), "--heartbeat-interval", "500",
                 "--election-timeout", "5000", "--listen-peer-urls", own, "--initial-advertise-peer-urls", own, "--listen-client-urls", url,
                 "--advertise-client-urls", url, "--initial-cluster", ",".join("m%d=%s" % peer for peer in peers.items())]
        with open("%s/etcd-%d.log" % (ROOT, self.number), "ab") as log:
            self.etcd = subprocess.Popen(words, stdout=log, stderr=log)

    def processes(self):
        return [one for one in (self.child, self.etcd) if one is not None]

    def listens(self):
        check(self.child.poll() is None, "server %d has ended" % self.number)
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", PORT + self.number)) == 0

    def log_file(self):
        return "%s/server-%d.log" % (ROOT, self.number)

    def log(self):
        with open(self.log_file(), errors="replace") as f:
            return "--- server %d\n%s" % (self.number, f.read()[-4000:])


def etcd_url(number):
    return "http://127.0.0.1:%d" % (ETCD_PORT + number)


class Machines:
    def __init__(self):
        self.servers = [Server(number) for number in SERVERS]
        self.fs_id = random.getrandbits(60) | 1
        for key in ("client", "server"):
            with open("%s/%s.key" % (ROOT, key), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
                f.write(os.urandom(32).hex() + "\n")
        self.write_config("auto")

    def write_config(self, trove):
        text = '[fs]\nid = "%x"\nclient_key_file = "client.key"\nserver_key_file = "server.key"\n' % self.fs_id
        text += '[meta]\nsession_lease = "%d s"\n' % PATIENT  # the worker is to keep its session however slow everything is
        if len(METAS) > 1:  # no change is acknowledged that a single machine has
            text += 'min_copies = 2\ncoordinator = %s\n' % json.dumps([etcd_url(number) for number in METAS])
        for number in SERVERS:
            text += '[[servers]]\nid = %d\nurls = ["tcp://127.0.0.1:%d"]\nroles = ["%s"]\nkeyval = "server-%d/keyval"\n' % (
                number, PORT + number, "meta" if number in METAS else "io", number)
            if number not in METAS:
                text += 'storage = ["server-%d/target"]\ntrove = "%s"\n' % (number, trove)
        with open(ROOT + "/spate.toml", "w") as f:
            f.write(text)

    def start(self, *more, env=None):
        for server in self.servers:
            server.start(*more, env=env)

    def kill(self, numbers):
        """Kills these servers at once. Nothing that their disks are told later counts as durable."""
        servers = [server for server in self.servers if server.number in numbers]
        processes = [one for server in servers for one in server.processes()]
        for one in processes:
            one.send_signal(signal.SIGKILL)
        for one in processes:
            one.wait()
        for server in servers:
            server.disk.mark_killed()

    def lose_power(self, numbers, rng):
        """Killed servers' disks lose what was not flushed. Returns how many writes each has lost."""
        return [server.disk.crash(rng) for server in self.servers if server.number in numbers]

    def boot(self, order):
        for number in order:
            server = self.servers[number - 1]
            server.boot()
            server.start()

    def is_whole(self):
        rows = json.loads(spate("status", "--json", codes=range(256)) or "[]")
        up = all(row["up"] for row in rows if "server" in row)
        if len(METAS) > 1:
            parts = sorted(row["group"].split()[0] for row in rows if "group" in row)
            up = up and parts == ["backup"] * (len(METAS) - 1) + ["leads"]
        return up and any("groups" in row and row["groups"] > 0 and row["degraded"] == 0 for row in rows)

    def wait_until_whole(self):
        wait_until(self.is_whole, "all servers are up and all groups are whole", PATIENT)

    def logs(self):
        return "\n".join(server.log() for server in self.servers)


class Worker:
    """A process of crash_worker.py."""

    def __init__(self, name, seed):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crash_worker.py")
        self.child = subprocess.Popen([sys.executable, program, ROOT, name, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def does(self, steps):
        while int(self.line()) < steps:
            pass

    def line(self):
        line = self.child.stdout.readline()
        check(line, "the worker has ended")
        return line

    def stop_and_tell(self, crashed):
        self.child.send_signal(signal.SIGSTOP)
        wait_until(lambda: stands_still(self.child.pid), "the worker stands still", PATIENT)
        self.child.stdin.write("crashed %s\n" % " ".join(str(number) for number in crashed))
        self.child.stdin.flush()

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)

    def result(self):
        last = ""
        for line in self.child.stdout:
            last = line
        check(self.child.wait() == 0 and last.startswith("{"), "the worker failed: %s" % last)
        return json.loads(last)
