# SPDX-License-Identifier: Apache-2.0
"""A file system whose servers and client have a network interface of limited speed each, in network namespaces of one machine (root)."""
import os
import subprocess
import time

from servers import Servers

PORT = 18500
# The numbers of the namespaces: the servers', which spate.toml has, and the client's.
SERVERS, CLIENT = (1, 2, 3, 4), 9
BURST, LATENCY = "256k", "50ms"  # of the token buckets that limit the links


def name_of(number):
    return "spatemirror%d" % number


def address_of(number):
    return "10.97.0.%d" % number


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Links:
    """A bridge, and a namespace for each server and for the client, whose link to it moves `rate` (of tc) each way."""

    def __init__(self, rate):
        self.rate = rate

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        ip("link", "add", "spmbridge", "type", "bridge")
        ip("link", "set", "spmbridge", "up")
        for number in (*SERVERS, CLIENT):
            outer, inner = "spmo%d" % number, "spmi%d" % number
            ip("netns", "add", name_of(number))
            ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            ip("link", "set", outer, "master", "spmbridge", "up")
            ip("link", "set", inner, "netns", name_of(number))
            ip("-n", name_of(number), "address", "add", address_of(number) + "/24", "dev", inner)
            ip("-n", name_of(number), "link", "set", inner, "up")
            limit = ["root", "tbf", "rate", self.rate, "burst", BURST, "latency", LATENCY]
            subprocess.run(["tc", "qdisc", "add", "dev", outer, *limit], check=True)
            subprocess.run(["tc", "-n", name_of(number), "qdisc", "add", "dev", inner, *limit], check=True)

    def __exit__(self, *unused):
        for number in (*SERVERS, CLIENT):
            subprocess.run(["ip", "netns", "delete", name_of(number)], check=False)
        subprocess.run(["ip", "link", "delete", "spmbridge"], check=False)


class LinkedServers(Servers):
    """Made on loopback as `spate up` does it, ended, and started again in the namespaces."""

    def __init__(self, options, folder, name):
        super().__init__(options, folder, name, io=len(SERVERS) - 1)
        self.port = PORT
        self.daemons = os.path.join(options.bin, "spated")
        self.running = []

    def start(self):
        super().start()
        self.run("--quiet", "down", "--dir", self.dir)
        with open(self.config) as f:
            text = f.read()
        for number in SERVERS:
            text = text.replace("tcp://127.0.0.1:%d" % (PORT + number - 1), "tcp://%s:%d" % (address_of(number), PORT))
        with open(self.config, "w") as f:
            f.write(text)
        for number in SERVERS:
            log = open(os.path.join(self.dir, "links-%d.log" % number), "w")
            self.running.append(subprocess.Popen([*within(number), self.daemons, "--config", self.config, "--server", str(number), "--serve"],
                                                 stdout=log, stderr=log))
        self.pids = [child.pid for child in self.running]
        self.wait()
        return self

    def wait(self):
        for _ in range(100):
            asked = subprocess.run([*within(CLIENT), self.spate, "--quiet", "--fs", self.config, "df"], env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if asked.returncode == 0:
                return
            time.sleep(0.1)

    def run(self, *arguments):
        prefix = within(CLIENT) if self.running else []
        subprocess.run([*prefix, self.spate, *arguments], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def __exit__(self, *unused):
        for child in self.running:
            child.terminate()
        for child in self.running:
            child.wait()
        self.running = []
        super().__exit__(*unused)


def within(number):
    """The beginning of a command that runs in a namespace."""
    return ["ip", "netns", "exec", name_of(number)]
