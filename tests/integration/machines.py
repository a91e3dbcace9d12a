# SPDX-License-Identifier: Apache-2.0
"""Machines for tests that type the commands of the docs. Each machine has its own network, /usr, /etc, /var, /run, /srv
and processes. There is no systemd; instead `systemctl` starts by hand what a unit file says, and `ssh` and `scp` enter
the other machine."""
import configparser
import glob
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from cluster import check, skip, wait_until

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETUP = """
  mount --make-rprivate /
  for name in usr etc var; do
    mkdir -p $own/$name.upper $own/$name.work
    mount -t overlay overlay -o lowerdir=/$name,upperdir=$own/$name.upper,workdir=$own/$name.work /$name
  done
  for folder in /run /srv /mnt; do mount -t tmpfs -o mode=755 machine $folder; done
  mkdir /run/home
  hostname $host
  printf '%s' "$hosts" >> /etc/hosts
  touch $own/made
  exec sleep infinity
"""


def alone():
    """Starts this program again with its own network and mounts. Skips the test if that is not allowed."""
    if os.environ.get("SPATE_MACHINES") == "1":
        # A copy of another test's mount would keep that mount alive.
        subprocess.run(["umount", "-l", "-a", "-t", "fuse.spate"], check=False)
        return
    if os.getuid() != 0:
        skip("needs root")
    if not os.path.exists("/dev/fuse"):
        skip("/dev/fuse cannot be used here")
    probe = "ip link add br0 type bridge && mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w && mount -t overlay o -o lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w /etc"
    if subprocess.run(["unshare", "--net", "--mount", "sh", "-ec", probe], stderr=subprocess.DEVNULL).returncode != 0:
        skip("no bridge or no overlay can be made here")
    os.environ["SPATE_MACHINES"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])


class Machines:
    """Makes one machine for each of `names`; node I has the address 10.1.0.I. Life cycle: alone(), then with
    Machines(...); after the block all processes are gone."""

    def __init__(self, names):
        self.names = names
        self.root = tempfile.mkdtemp(prefix="spate-test-", dir="/dev/shm")
        self.pids = {}
        self.holders = []

    def __enter__(self):
        subprocess.run(["sh", "-euc", "ip link set lo up; ip link add br0 type bridge; ip link set br0 up"], check=True)
        os.mkdir(self.root + "/bin")
        for name in ("systemctl", "ssh", "scp"):
            with open("%s/bin/%s" % (self.root, name), "w") as f:
                f.write("#!/bin/sh\nSPATE_BIN=%s exec %s %s %s %s \"$@\"\n" % (os.environ["SPATE_BIN"], sys.executable, os.path.abspath(__file__), self.root, name))
            os.chmod("%s/bin/%s" % (self.root, name), 0o755)
        threading.Thread(target=self.serve_ssh, daemon=True).start()
        hosts = "".join("10.1.0.%d %s\n" % (number, name) for number, name in enumerate(self.names, 1))
        for number, name in enumerate(self.names, 1):
            self.make(number, name, hosts)
        return self

    def serve_ssh(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.root + "/ssh")
        listener.listen()
        while True:
            line = listener.accept()[0]
            with line:
                told = b"".join(iter(lambda: line.recv(1 << 16), b""))
                (host, command), data = json.loads(told.partition(b"\n")[0]), told.partition(b"\n")[2]
                done = subprocess.run([*enter(self.pids[host]), "sh", "-c", command], input=data, env=self.environment(),
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                line.sendall(b"%d\n" % done.returncode + done.stdout)

    def environment(self):
        return {"PATH": self.root + "/bin:" + PATH, "HOME": "/run/home", "LC_ALL": "C.UTF-8"}

    def make(self, number, name, hosts):
        own = os.path.join(self.root, name)
        os.mkdir(own)
        holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", SETUP],
                                  env={"PATH": PATH, "own": own, "host": name, "hosts": hosts})
        self.holders.append(holder)
        wait_until(lambda: os.path.exists(own + "/made") or holder.poll() is not None, name + " is made")
        check(holder.poll() is None, name + " cannot be made")
        with open("/proc/%d/task/%d/children" % (holder.pid, holder.pid)) as f:
            self.pids[name] = int(f.read().split()[0])
        script = "ip link add v%d type veth peer name eth0 netns %d; ip link set v%d master br0 up" % (number, self.pids[name], number)
        subprocess.run(["sh", "-euc", script], check=True)
        done = self.run(name, "ip link set lo up; ip address add 10.1.0.%d/24 dev eth0; ip link set eth0 up" % number)
        check(done.returncode == 0, "network of %s: %s" % (name, done.stdout))

    def __exit__(self, kind, error, trace):
        if error is not None:
            for name in self.names:
                print("--- %s\n%s" % (name, self.run(name, "tail -n 20 /run/stand-in/*.log /var/log/spate*/*.log 2>/dev/null || true").stdout), file=sys.stderr)
        for holder in self.holders:
            holder.kill()  # and with it all processes of the machine
            holder.wait()
        shutil.rmtree(self.root, ignore_errors=True)
        return False

    def run(self, name, commands, cwd="/"):
        """Runs commands as root in a shell that ends at the first failure."""
        return subprocess.run([*enter(self.pids[name]), "sh", "-euc", "cd \"$0\"\n" + commands, cwd], env=self.environment(), timeout=180, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def install(self):
        """Spate from the build that is tested, on each machine, as docs/operating.md says. Skips if it cannot be installed."""
        build = os.path.dirname(os.path.abspath(os.environ["SPATE_BIN"]))
        if not os.path.exists(os.path.join(build, "cmake_install.cmake")):
            skip("this is no build that can be installed")
        source = self.root + "/source"
        os.mkdir(source)
        os.symlink(build, source + "/build")
        for name in self.names:
            self.type(name, "cmake --install build --prefix /usr\nldconfig", source)

    def type(self, name, commands, cwd="/"):
        done = self.run(name, commands, cwd)
        check(done.returncode == 0, "on %s, exit %d:\n%s\n%s" % (name, done.returncode, commands, done.stdout))
        return done.stdout


def enter(pid):
    return ["nsenter", "--target", str(pid), "--net", "--mount", "--uts", "--pid"]


def blocks(page):
    """Returns the commands of a page: [(where, text)] of its blocks ```sh WHERE."""
    with open(os.path.join(os.environ["SPATE_SOURCE"], "docs", page)) as f:
        text = f.read()
    found = []
    for indent, where, block in re.findall(r"^( *)```sh (\S+)\n(.*?)^\1```$", text, re.S | re.M):
        found.append((where, re.sub("^" + indent, "", block, flags=re.M)))
    return found


# Stand-ins for commands that do not exist here.

def remote(root, host, command, data=b""):
    """Runs the command by the thread of `Machines` that serves it, since machines do not see each other's processes."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(root + "/ssh")
        line.sendall(json.dumps([host, command]).encode() + b"\n" + data)
        line.shutdown(socket.SHUT_WR)
        told = b"".join(iter(lambda: line.recv(1 << 16), b""))
    code, _, output = told.partition(b"\n")
    sys.stdout.buffer.write(output)
    return int(code)


def ssh(root, host, *command):
    return remote(root, host, " ".join(command))


def scp(root, *words):
    sources = [w for w in words[:-1] if not w.startswith("-")]
    host, folder = words[-1].split(":")
    packed = subprocess.run(["tar", "-c", "-C", os.path.dirname(sources[0]), *map(os.path.basename, sources)], stdout=subprocess.PIPE, check=True)
    return remote(root, host, "tar -x -C " + folder, packed.stdout)


class Unit:
    """A service as its unit file and drop-ins describe it, started by hand."""

    def __init__(self, name):
        self.name = name.removesuffix(".service")
        self.instance = self.name.partition("@")[2]
        files = ["/usr/lib/systemd/system/%s@.service" % self.name.partition("@")[0]]
        extra = "/etc/systemd/system/%s.service.d" % self.name
        files += [os.path.join(extra, one) for one in sorted(os.listdir(extra))] if os.path.isdir(extra) else []
        self.values = {}
        for file in files:
            parser = configparser.RawConfigParser(strict=False)
            parser.optionxform = str
            with open(file) as f:
                parser.read_string(re.sub(r"^#.*", "", f.read(), flags=re.M))
            for key, value in parser["Service"].items():
                self.values.setdefault(key, []).append(value.replace("%i", self.instance))
        os.makedirs("/run/stand-in", exist_ok=True)
        self.state = "/run/stand-in/" + self.name

    def one(self, key, default=""):
        return self.values.get(key, [default])[-1]

    def pid(self):
        try:
            with open(self.state + ".pid") as f:
                pid = int(f.read())
            os.kill(pid, 0)
            with open("/proc/%d/stat" % pid) as f:
                return 0 if f.read().rsplit(")", 1)[1].split()[0] == "Z" else pid
        except (OSError, ValueError):
            return 0

    def folders(self):
        user = pwd.getpwnam(self.one("User"))
        for key, parent in (("StateDirectory", "/var/lib"), ("LogsDirectory", "/var/log"), ("RuntimeDirectory", "/run")):
            if self.one(key):
                folder = os.path.join(parent, self.one(key))
                os.makedirs(folder, mode=0o755, exist_ok=True)
                os.chown(folder, user.pw_uid, user.pw_gid)
                yield folder
        for words in self.values.get("ReadWritePaths", []):
            for path in words.split():
                if os.path.exists(path.lstrip("-")) or not path.startswith("-"):
                    yield path.lstrip("-")

    def start(self):
        if self.pid():
            return 0
        check(self.one("ProtectSystem") == "strict" and self.one("Type") == "notify", "the unit has changed: teach the stand-in")
        script = ["mount --make-rprivate /"]
        script += ["mount --bind %s %s" % (path, path) for path in self.folders()]
        script += ["mount -o remount,bind,ro %s" % path for path in ("/usr", "/etc", "/var", "/srv", "/run", "/")]
        script += ["mount -t tmpfs private /tmp", "cd /"]
        script += ["exec setpriv --reuid %s --regid %s --init-groups --no-new-privs %s" % (self.one("User"), self.one("Group"), self.one("ExecStart"))]
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if os.path.exists(self.state + ".notify"):
            os.unlink(self.state + ".notify")
        notify.bind(self.state + ".notify")
        os.chmod(self.state + ".notify", 0o777)
        with open(self.state + ".log", "ab") as log:
            process = subprocess.Popen(["unshare", "--mount", "sh", "-euc", "\n".join(script)], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       start_new_session=True, env={"PATH": PATH, "NOTIFY_SOCKET": self.state + ".notify", **dict([self.one("Environment").split("=", 1)])})
        with open(self.state + ".pid", "w") as f:
            f.write(str(process.pid))
        notify.settimeout(0.05)
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            try:
                if b"READY=1" in notify.recv(1000):
                    return 0
            except TimeoutError:
                pass
        with open(self.state + ".log", errors="replace") as f:
            print("%s does not start:\n%s" % (self.name, f.read()[-2000:]), file=sys.stderr)
        return 1

    def reload(self):
        check(self.one("ExecReload") == "/bin/kill -HUP $MAINPID", "the unit has changed: teach the stand-in")
        os.kill(self.pid(), signal.SIGHUP)

    def stop(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not self.pid(), self.name + " ends")
        return 0


def systemctl(_root, *words):
    verb, *names = [word for word in words if not word.startswith("--")]
    if verb == "daemon-reload":
        return 0
    if verb == "reload":  # a pattern stands for the units that run
        running = [os.path.basename(path).removesuffix(".pid") for name in names for path in glob.glob("/run/stand-in/%s.pid" % name.removesuffix(".service"))]
        for unit in filter(Unit.pid, map(Unit, running)):
            unit.reload()
        return 0
    units = [Unit(name) for name in names]
    if verb == "is-active":
        return 0 if all(unit.pid() for unit in units) else 3
    if verb in ("stop", "restart") and any(unit.stop() for unit in units):
        return 1
    if verb in ("restart", "start") or (verb == "enable" and "--now" in words):
        return 1 if any(unit.start() for unit in units) else 0
    return 0 if verb == "stop" else 2


if __name__ == "__main__":
    sys.exit({"systemctl": systemctl, "ssh": ssh, "scp": scp}[sys.argv[2]](sys.argv[1], *sys.argv[3:]))
