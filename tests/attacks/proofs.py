#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers whose addresses ask for different proofs (servers.auth), as real processes. At each kind of address each kind of
proof is tried, and only its own gets in; every refusal stands with its reason in the audit log, and the first one of some
seconds in the server's log. A process uses the addresses for which it has a proof, and never an open address of a server of another machine."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading

from lib import SPATE, Cluster, check, need_root, skip, wait_until

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
ALICE, MUNGE = 65504, 65490  # users without accounts
MUNGED = "/usr/sbin/munged"
DOORS = ("munge", "key", "tls", "none")  # in the order of the urls


class Munged:
    def __init__(self, folder):
        os.makedirs(folder, mode=0o755)
        key = os.path.join(folder, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(os.urandom(128))
        for path in (folder, key):
            os.chown(path, MUNGE, MUNGE)
        self.socket = os.path.join(folder, "socket")
        options = ["--%s=%s/%s" % (name + end, folder, name) for name, end in (("key", "-file"), ("log", "-file"), ("pid", "-file"), ("seed", "-file"), ("socket", ""))]
        self.process = subprocess.Popen([MUNGED, "--foreground", *options], user=MUNGE, group=MUNGE, extra_groups=[], stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.socket), "munged listens")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def certificates(folder):
    """Returns the section [tls] for an authority, and for a certificate of it that is good for servers and clients here."""
    os.makedirs(folder)
    ca, ca_key, own, key = (folder + "/" + name for name in ("ca.pem", "ca.key", "own.pem", "own.key"))
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "30")
    openssl("req", "-x509", *new, "-subj", "/CN=authority", "-keyout", ca_key, "-out", ca)
    openssl("req", "-x509", "-CA", ca, "-CAkey", ca_key, *new, "-subj", "/CN=own", "-addext", "subjectAltName=IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", own)
    return '\n[tls]\nca = "%s"\ncertificate = "%s"\nkey = "%s"\n' % (ca, own, key)


class Doors:
    """The file of the servers, and files of clients that know one address of each server."""

    def __init__(self, fs):
        self.fs = fs
        with open(fs.dir + "/spate.toml") as f:
            self.text = f.read()
        tls = certificates(fs.root + "/tls")
        self.text = re.sub(r"\n\[tls\]\n", lambda _: tls, self.text, count=1)

    def urls(self, port):
        """The 20 ports from the first server's on are this test's."""
        return {"munge": "tcp://127.0.0.2:%d" % (port + 4), "key": "tcp://127.0.0.1:%d" % port,
                "tls": "tcp+tls://127.0.0.1:%d" % (port + 8), "none": "tcp://127.0.0.3:%d" % (port + 12)}

    def file(self, name, doors, words=None):
        """Writes a configuration with these addresses of each server, called what `words` says."""
        def changed(match):
            urls = self.urls(int(match.group(1)))
            return "urls = [%s]\nauth = [%s]" % (", ".join('"%s"' % urls[door] for door in doors), ", ".join('"%s"' % word for word in words or doors))

        text, count = re.subn(r'urls = \[ ?[^]]*"tcp://[^"]*:(\d+)"[^]]*\]', changed, self.text)
        check(count == self.fs.io + 1, "%d servers found" % count)
        path = os.path.join(self.fs.dir, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path


class Clients:
    def __init__(self, fs, munged):
        self.fs = fs
        self.program = os.path.dirname(SPATE) + "/spate"
        self.munge = {"SPATE_AUTH_MUNGE_SOCKET": munged.socket}
        self.user_key = fs.root + "/alice.key"

    def run(self, config, *args, user=0, **env):
        """Runs a command with the configuration. Returns its exit code, its output and its messages."""
        who = dict(user=user, group=user, extra_groups=[]) if user else {}
        env = {**self.fs.env, **self.munge, "SPATE_CLIENT_DEADLINE": "20 s", **env}
        env.pop("SPATE_LOG_AUDIT", None)
        if user:
            env["HOME"] = "/nonexistent"
        done = subprocess.run([self.program, "--fs", config, *args], env=env, capture_output=True, text=True, timeout=120, **who)
        return done.returncode, done.stdout, done.stderr


def audit(fs):
    with open(os.path.join(fs.root, "audit.log")) as f:
        return [json.loads(line) for line in f]


def refused(fs, clients, config, why, **how):
    """The client and the audit log give the reason."""
    before = len(audit(fs))
    code, out, said = clients.run(config, "ls", "spate:/", **how)
    check(code == 1 and why in said, "%s, exit %d: %s %s instead of %r" % (config, code, out, said, why))
    wait_until(lambda: any(one["event"] == "refused" and why in one["what"] for one in audit(fs)[before:]), "the audit log says: " + why)


def admitted(clients, config, **how):
    code, out, said = clients.run(config, "ls", "spate:/", **how)
    check(code == 0 and out == "a\n", "%s: exit %d %r %s" % (config, code, out, said))


def each_proof_at_each_door(fs, doors, clients):
    def at(door, word):
        return doors.file("%s-as-%s.toml" % (door, word), [door], [word])

    by_user_key = {"SPATE_FS_CLIENT_KEY_FILE": clients.user_key}
    for door in ("key", "munge", "none"):
        for word in ("key", "munge", "none"):
            config = at(door, word)
            if door != word:
                continue
            admitted(clients, config, **({"user": ALICE} if word == "munge" else {}))
    admitted(clients, at("key", "key"), **by_user_key)
    admitted(clients, at("tls", "tls"))
    refused(fs, clients, at("key", "munge"), "this address admits nobody by munge")
    check("admits nobody by munge" in fs.log(1), "the log says why the first one was refused")  # it has a line in 10 s
    refused(fs, clients, at("key", "none"), "a key is required")
    refused(fs, clients, at("munge", "key"), "asks clients for a credential of munge, not for a key")
    refused(fs, clients, at("munge", "key"), "asks clients for a credential of munge, not for a key", **by_user_key)
    refused(fs, clients, at("munge", "none"), "asks clients for a credential of munge (servers.auth)")
    refused(fs, clients, at("none", "key"), "asks clients for nothing, not for a key")
    refused(fs, clients, at("none", "key"), "asks clients for nothing, not for a key", **by_user_key)
    refused(fs, clients, at("none", "munge"), "this address admits nobody by munge")
    refused(fs, clients, at("tls", "key"), "asks clients for a certificate, not for a key")
    refused(fs, clients, at("tls", "munge"), "this address admits nobody by munge")
    certificates(fs.root + "/foreign")
    foreign = {"SPATE_TLS_CERTIFICATE": fs.root + "/foreign/own.pem", "SPATE_TLS_KEY": fs.root + "/foreign/own.key"}
    code, _, said = clients.run(at("tls", "tls"), "ls", "spate:/", SPATE_CLIENT_DEADLINE="3 s", **foreign)
    check(code == 1 and "does not accept this side's certificate" in said, "a certificate of another authority: %s" % said)
    code, out, said = clients.run(at("munge", "munge"), "stats", user=ALICE)
    check(code == 1 and "only the operator" in said, "alice asks for statistics: %s" % said)


def everybody_finds_his_door(fs, doors, clients, whole):
    """With the whole file, in which the address by munge comes first."""
    urls = doors.urls(fs.port)
    code, out, said = clients.run(whole, "ping")
    check(code == 0 and urls["key"] in out and urls["munge"] not in out, "who has the key goes where it counts: %s %s" % (out, said))
    for args in (("status",), ("stats",), ("df",), ("config", "check"), ("config", "show")):
        code, out, said = clients.run(whole, *args)
        check(code == 0, "%s: exit %d %s %s" % (args, code, out, said))
    check('auth = ["munge", "key", "tls", "none"]' in out, "config show: %s" % out)
    admitted(clients, whole, user=ALICE)
    code, out, said = clients.run(whole, "stats", user=ALICE)
    check(code == 1 and "only the operator" in said, "alice has no key and comes by munge: %s" % said)
    fs.spate("put", "spate:/b", input=b"x" * 100_000)
    check(len(fs.spate("get", "spate:/b")) == 100_000, "what was put")
    fs.spate("rm", "spate:/b")


def open_doors_of_others_are_not_tried(fs, doors, clients):
    """Server 1 has an address of a network that is not this machine's, so whoever listens at its address of the own
    machine is somebody else."""
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        somebody.settimeout(1)

        def listen():
            try:
                seen.append(somebody.accept())
            except OSError:
                pass

        listening = threading.Thread(target=listen)
        listening.start()
        path = doors.file("elsewhere.toml", ["none"])
        with open(path) as f:
            text = f.read()
        mine = "tcp://127.0.0.1:%d" % somebody.getsockname()[1]
        count = iter(range(100))
        text = re.sub(r"urls = .*\nauth = .*", lambda _: 'urls = ["%s", "tcp://192.0.2.%d:7400"]\nauth = ["none", "key"]' % (mine if (n := next(count)) == 0 else "tcp://127.0.0.1:%d" % (n + 1), n + 1), text)
        with open(path, "w") as f:
            f.write(text)
        code, _, said = clients.run(path, "ls", "spate:/", SPATE_CLIENT_DEADLINE="2 s", SPATE_NETWORK_CONNECT_TIMEOUT="1 s")
        listening.join()
        check(code != 0 and not seen, "the client has come to somebody else's address: %s" % said)


def mistakes(fs, doors):
    def says(words, why, doors_of=("key", "none")):
        path = doors.file("wrong.toml", list(doors_of), words)
        check(why in fs.fails("--fs", path, "config", "check"), "%s: %s" % (words, fs.fails("--fs", path, "config", "check")))
        check(why in subprocess.run([os.path.dirname(SPATE) + "/spated", "--config", path, "--server", "1"], capture_output=True, text=True, timeout=60).stderr, "spated starts")

    says(["key", "password"], "\"password\" is not allowed")
    says(["key", "key", "key"], "servers.auth of server 1 has 3 words for 2 addresses")
    says(["key", "tls"], "so it is for tcp+tls:// and shm:// addresses only, not for tcp://127.0.0.3")


def main():
    need_root()
    if not os.access(MUNGED, os.X_OK):
        skip("needs munged (package munge)")
    if shutil.which("openssl") is None:
        skip("openssl is not installed")
    with Cluster(io=2) as fs:
        os.chmod(fs.root, 0o711)
        munged = Munged(os.path.join(fs.root, "munge"))
        try:
            attack(fs, munged)
        finally:
            munged.stop()


def attack(fs, munged):
    fs.env.update(SPATE_LOG_AUDIT=os.path.join(fs.root, "audit.log"), SPATE_AUTH_MUNGE_SOCKET=munged.socket)
    fs.up("--tcp-only")
    fs.spate("put", "spate:/a", input=b"hello")
    fs.spate("down", "-q", "--dir", fs.dir)
    doors = Doors(fs)
    os.chmod(fs.dir, 0o711)
    whole = doors.file("spate.toml", list(DOORS))
    os.chmod(fs.root + "/tls/own.key", 0o600)
    fs.up()
    clients = Clients(fs, munged)
    clients.program = shutil.copy(SPATE, fs.root)  # the build may lie where other users have no access
    for library in os.listdir(os.path.dirname(SPATE)):
        if library.startswith("libspate-tls"):
            shutil.copy(os.path.join(os.path.dirname(SPATE), library), fs.root)
    fs.spate("key", "issue", "--uid", str(ALICE), "--gid", str(ALICE), "-o", clients.user_key)
    each_proof_at_each_door(fs, doors, clients)
    everybody_finds_his_door(fs, doors, clients, whole)
    open_doors_of_others_are_not_tried(fs, doors, clients)
    mistakes(fs, doors)
    fs.fsck()


main()
