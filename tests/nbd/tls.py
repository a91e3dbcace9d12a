#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TLS by certificates and by keys, with a client that is not ours. Where TLS is required, nothing works without it."""
import os
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import urllib.parse

from common import SPATE, Export, check, conformance
from nbd_wire import *  # noqa: F403

KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)


def make_certificates(folder):
    """Makes a CA, and certificates of a server and of a client that it has signed."""
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new, "-subj", "/CN=test CA", "-days", "2", "-keyout", at("ca-key.pem"), "-out", at("ca-cert.pem"))
    with open(at("names"), "w") as f:
        f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for who in ("server", "client", "other"):
        openssl("req", *new, "-subj", "/CN=" + who, "-keyout", at(who + "-key.pem"), "-out", at(who + ".csr"))
        openssl("x509", "-req", "-in", at(who + ".csr"), "-CA", at("ca-cert.pem"), "-CAkey", at("ca-key.pem"), "-CAcreateserial", "-days", "2",
                "-extfile", at("names"), "-out", at(who + "-cert.pem"))


def secure(connection, folder, certificate="client"):
    """Starts TLS on the connection."""
    kind = connection.option(OPT["STARTTLS"])[-1][0]
    check(kind == ACK, "STARTTLS: %#x" % kind)
    context = ssl.create_default_context(cafile=os.path.join(folder, "ca-cert.pem"))
    if certificate:
        context.load_cert_chain(os.path.join(folder, certificate + "-cert.pem"), os.path.join(folder, certificate + "-key.pem"))
    connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
    return connection


def by_certificates(folder, disk):
    data = os.urandom(3 << 20)
    with Export("--port", "0", "--tls", folder, disk) as export:
        check(export.url.startswith("nbds://"), export.url)
        with Connection(export.address) as c:
            check(c.option(OPT["LIST"])[-1][0] == ERR_TLS_REQD, "a list without TLS")
            check(c.option(OPT["GO"], go_data(""))[-1][0] == ERR_TLS_REQD, "an export without TLS")
            secure(c, folder)
            check(c.option(OPT["STARTTLS"])[-1][0] == ERR_INVALID, "TLS in TLS")
            c.structured_reply()
            c.go("")
            c.write(1234, data)
            for length in (1, 4096, 100000, len(data)):
                check(c.read(1234, length) == data[:length], "other bytes")
            cookies = [c.send_request(READ, 1234, 65536) for _ in range(64)]
            check({c.reply().cookie for _ in cookies} == set(cookies), "replies")
        with Connection(export.address) as c:  # EXPORT_NAME has no reply that refuses
            c.send_option(OPT["EXPORT_NAME"])
            check(c.closed(), "an export without TLS")
        with Connection(export.address) as c:  # plain bytes behind STARTTLS must not count as sent through TLS
            c.send(struct.pack(">QII", OPTION_MAGIC, OPT["STARTTLS"], 0) + struct.pack(">QII", OPTION_MAGIC, OPT["LIST"], 0))
            check(c.closed(), "an option that anybody may have put there was taken")
        with Connection(export.address) as c:
            try:
                secure(c, folder, certificate=None).go("")
                raise AssertionError("an export for a client without a certificate")
            except (ssl.SSLError, Closed, OSError):
                pass
        with Connection(export.address) as c:
            c.option(OPT["STARTTLS"])
            c.send(os.urandom(4096))  # no TLS at all
        with Connection(export.address) as c:
            secure(c, folder).go("").read(0, 512)


def by_keys(folder, disk):
    keys = os.path.join(folder, "keys")
    with open(keys, "w") as f:
        f.write("alice:%s\n" % KEY)
    refused = subprocess.run([SPATE, "export", "--port", "0", "--tls-psk", keys, disk], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    check(refused.returncode == 1 and b"chmod" in refused.stderr, "keys that others can read: %r" % refused.stderr)
    os.chmod(keys, 0o600)
    with Export("--port", "0", "--tls-psk", keys, disk) as export:
        for version in ("-tls1_2", "-tls1_3"):
            for key, works in ((KEY, True), (KEY[:-1] + "0", False)):
                listed = list_by_openssl(export.address, version, "alice", key)
                check((listed == [b""]) == works, "%s with %s key: %r" % (version, "the" if works else "another", listed))
        export_is_there = Connection(export.address)
        check(export_is_there.option(OPT["LIST"])[-1][0] == ERR_TLS_REQD, "a list without TLS")


def by_names(folder, disk):
    """Exports for certain clients, by their names in TLS. Other clients do not see them."""
    with Export("--port", "0", "--tls", folder, "--allow", "a=cert:client", "--allow", "b=127.0.0.0/8,cert:other", "--allow", "d=192.0.2.0/24,cert:client",
                "a=" + disk, "b=" + disk, "c=" + disk, "d=" + disk) as export:
        for who, sees in (("client", [b"a", b"c"]), ("other", [b"b", b"c"])):
            with Connection(export.address) as c:
                secure(c, folder, who)
                listed = [data[4:] for kind, data in c.option(OPT["LIST"]) if kind == SERVER]
                check(listed == sees, "%s sees %r" % (who, listed))
                hidden = "b" if who == "client" else "a"
                check(c.option(OPT["GO"], go_data(hidden))[-1][0] == ERR_UNKNOWN, "%s may use %s" % (who, hidden))
                c.go(sees[0].decode()).read(0, 512)
        with Connection(export.address) as c:  # the name may come from DNS entries as well as from the subject
            check(c.option(OPT["LIST"])[-1][0] == ERR_TLS_REQD, "a list without TLS")
    with Export("--port", "0", "--tls", folder, "--allow", "cert:localhost", disk) as export, Connection(export.address) as c:
        secure(c, folder).go("").read(0, 512)
    keys = os.path.join(folder, "two-keys")
    with open(keys, "w") as f:
        f.write("alice:%s\nbob:%s\n" % (KEY, KEY[::-1]))
    os.chmod(keys, 0o600)
    with Export("--port", "0", "--tls-psk", keys, "--allow", "a=psk:alice", "--allow", "b=psk:bob", "a=" + disk, "b=" + disk) as export:
        for version in ("-tls1_2", "-tls1_3"):
            for who, key, sees in (("alice", KEY, [b"a"]), ("bob", KEY[::-1], [b"b"])):
                listed = list_by_openssl(export.address, version, who, key)
                check(listed == sees, "%s by %s sees %r" % (who, version, listed))


def list_by_openssl(address, version, identity, key):
    """Returns the export list that `openssl s_client` receives through TLS with this key, or None if TLS fails. openssl
    cannot speak NBD, so a relay does the part before TLS."""
    import socket
    import threading
    relay = socket.socket()
    relay.bind(("127.0.0.1", 0))
    relay.listen()

    def serve():
        there, _ = relay.accept()
        with there, Connection(address) as c:
            c.option(OPT["STARTTLS"])
            back = threading.Thread(target=pour, args=(c.socket, there))
            back.start()
            pour(there, c.socket)
            back.join()

    def pour(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    client = subprocess.Popen(["openssl", "s_client", "-quiet", version, "-psk_identity", identity, "-psk", key,
                               "-connect", "127.0.0.1:%d" % relay.getsockname()[1]],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        client.stdin.write(struct.pack(">QII", OPTION_MAGIC, OPT["LIST"], 0))
        client.stdin.flush()
    except BrokenPipeError:
        pass
    listed = []
    while True:
        head = client.stdout.read(20)  # ends early if the handshake fails
        if len(head) < 20 or struct.unpack(">QII", head[:16]) != (OPTION_REPLY, OPT["LIST"], SERVER):
            break
        listed.append(client.stdout.read(struct.unpack(">I", head[16:])[0])[4:])
    client.kill()
    client.communicate()
    thread.join()
    relay.close()
    return listed if len(head) == 20 else None


def not_required(folder, disk):
    """A Unix socket belongs to its owner, with or without TLS. With --insecure clients choose whether to use TLS.
    Without ca-cert.pem they need no certificate."""
    unix = os.path.join(folder, "socket")
    with Export("--unix", unix, "--port", "0", "--tls", folder, disk) as export:
        with Connection(unix) as c:
            c.go("").read(0, 512)
        with Connection(unix) as c:
            secure(c, folder).go("").read(0, 512)
        tcp = urllib.parse.urlsplit(export.process.stdout.readline().decode().strip())
        with Connection((tcp.hostname, tcp.port)) as c:
            check(c.option(OPT["LIST"])[-1][0] == ERR_TLS_REQD, "a list without TLS beside a Unix socket")
    with Export("--port", "0", "--tls", folder, "--insecure", disk) as export:
        check(export.url.startswith("nbd://"), export.url)
        with Connection(export.address) as c:
            c.go("").read(0, 512)
        with Connection(export.address) as c:
            secure(c, folder).go("").read(0, 512)
    alone = os.path.join(folder, "alone")
    os.mkdir(alone)
    for name in ("server-cert.pem", "server-key.pem"):
        os.link(os.path.join(folder, name), os.path.join(alone, name))
    with Export("--port", "0", "--tls", alone, disk) as export:
        with Connection(export.address) as c:
            secure(c, folder, certificate=None).go("").read(0, 512)
        with Connection(export.address) as c:
            check(c.option(OPT["LIST"])[-1][0] == ERR_TLS_REQD, "a list without TLS")
    with Export("--port", "0", disk) as export, Connection(export.address) as c:
        check(c.option(OPT["STARTTLS"])[-1][0] == ERR_POLICY, "TLS without a certificate")


def refused(what, *words):
    done = subprocess.run([SPATE, "export", "--port", "0", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    check(done.returncode == 1 and what in done.stderr, "%s: exit %d, %r" % (" ".join(words), done.returncode, done.stderr))


def careless(folder, disk):
    """Mistakes that would let somebody in, or let somebody pretend to be another: a private key that others can read;
    keys that are not required of clients."""
    alone, key, keys = (os.path.join(folder, name) for name in ("careless", "careless/server-key.pem", "careless/keys"))
    os.mkdir(alone)
    for name in ("server-cert.pem", "server-key.pem"):
        shutil.copy(os.path.join(folder, name), alone)
    for mode in (0o604, 0o660, 0o602):
        os.chmod(key, mode)
        refused(b"server-key.pem can be read or changed by others", "--tls", alone, disk)
    os.chmod(key, 0o640)
    with Export("--port", "0", "--tls", alone, disk):
        pass
    if os.getuid() == 0:
        os.chown(key, 12345, -1)
        refused(b"belongs to another user", "--tls", alone, disk)
        os.chown(key, 0, -1)
    with open(keys, "w") as f:
        f.write("alice:%s\n" % KEY)
    os.chmod(keys, 0o600)
    both = ("--tls", alone, "--tls-psk", keys)
    refused(b"has no ca-cert.pem", *both, disk)
    refused(b"has no ca-cert.pem", *both, "--allow", "127.0.0.1", disk)
    for words in (("--allow", "psk:alice"), ("--insecure",)):
        with Export("--port", "0", *both, *words, disk):
            pass
    shutil.copy(os.path.join(folder, "ca-cert.pem"), alone)
    with Export("--port", "0", *both, disk) as export, Connection(export.address) as c:
        try:
            secure(c, folder, certificate=None).option(OPT["LIST"])
            raise AssertionError("a list without key and certificate")
        except (ssl.SSLError, Closed, OSError):
            pass


def slow_and_conforming(folder, disk):
    """Runs the protocol's checks through TLS, also with a client that reads late."""
    class Secured(conformance.Server):
        def connect(self, **more):
            c = super().connect(**more)
            return secure(c, folder) if more.get("handshake", True) else c
    with Export("--port", "0", "--tls", folder, disk) as export:
        for level, what, writes, function in conformance.CHECKS:
            if "transmission" in function.__module__ or "writing" in function.__module__:
                outcome, why = conformance.run_one(Secured(export.address, ""), function)
                check(outcome == "passed" or outcome == "skipped" and function.__name__ == "read_only", "%s: %s %s" % (function.__name__, outcome, why))


def off_loopback(folder, disk):
    """Addresses beyond loopback require TLS unless the user insists."""
    refused = subprocess.run([SPATE, "export", "--port", "0", "--bind", "0.0.0.0", disk], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    check(refused.returncode == 1 and b"--tls" in refused.stderr, "%r" % refused.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        disk = os.path.join(folder, "disk")
        with open(disk, "wb") as f:
            f.truncate(8 << 20)
        make_certificates(folder)
        for test in (by_certificates, by_keys, by_names, not_required, careless, slow_and_conforming, off_loopback):
            test(folder, disk)


if __name__ == "__main__":
    sys.exit(main())
