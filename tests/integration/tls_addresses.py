#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tcp+tls:// addresses with real processes: with the file system's keys and with certificates of an authority; the
messages for a wrong certificate or key; and no plain text on the wire."""
import os
import shutil
import socket
import subprocess

from cluster import Cluster, check, skip, wait_until

if shutil.which("openssl") is None:
    skip("openssl is not installed")

DATA = os.urandom(3_000_000)


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Authority:
    """Runs the commands of docs/operating.md, "Encryption"."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder)
        self.ca, self.ca_key = folder + "/ca.pem", folder + "/ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "3650",
                "-subj", "/CN=Spate authority", "-keyout", self.ca_key, "-out", self.ca)

    def issue(self, name, alternative="IP:127.0.0.1", days="365"):
        """Returns the paths of a new certificate and its key."""
        certificate, key = "%s/%s.pem" % (self.folder, name), "%s/%s.key" % (self.folder, name)
        openssl("req", "-x509", "-CA", self.ca, "-CAkey", self.ca_key, "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-noenc", "-days", days, "-subj", "/CN=" + name,
                "-addext", "subjectAltName=" + alternative, "-addext", "basicConstraints=critical,CA:FALSE",
                "-keyout", key, "-out", certificate)
        return certificate, key

    def issue_expired(self, name):
        config = self.folder + "/ca.cnf"
        with open(config, "w") as f:
            f.write("[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index\nnew_certs_dir=%s\ncertificate=%s\nprivate_key=%s\n"
                    "default_md=sha256\npolicy=p\nrand_serial=yes\nx509_extensions=x\n[p]\ncommonName=supplied\n"
                    "[x]\nsubjectAltName=IP:127.0.0.1\n" % (self.folder, self.folder, self.ca, self.ca_key))
        open(self.folder + "/index", "w").close()
        certificate, key, request = ("%s/%s.%s" % (self.folder, name, kind) for kind in ("pem", "key", "csr"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-subj", "/CN=" + name,
                "-keyout", key, "-out", request)
        openssl("ca", "-batch", "-notext", "-config", config, "-startdate", "20200101000000Z", "-enddate",
                "20200201000000Z", "-in", request, "-out", certificate)
        return certificate, key


    def revoke(self, certificate=None):
        """Runs the commands of docs/operating.md that make a new revocation list with the certificate. Returns the
        list's path."""
        config, fresh = self.folder + "/revoke.cnf", self.folder + "/fresh.pem"
        if not os.path.exists(config):
            with open(config, "w") as f:
                f.write("[ca]\ndefault_ca=d\n[d]\ndatabase=%s/revoked.index\ndefault_md=sha256\ndefault_crl_days=90\n" % self.folder)
            open(self.folder + "/revoked.index", "w").close()
        words = ("ca", "-config", config, "-cert", self.ca, "-keyfile", self.ca_key)
        if certificate:
            openssl(*words, "-revoke", certificate)
        openssl(*words, "-gencrl", "-out", fresh)
        os.rename(fresh, self.folder + "/revoked.pem")
        return self.folder + "/revoked.pem"


def variables(authority, certificate, key):
    return {"SPATE_TLS_CA": authority.ca, "SPATE_TLS_CERTIFICATE": certificate, "SPATE_TLS_KEY": key}


def says(text, *parts):
    for part in parts:
        check(part in text, "no word of %r in: %s" % (part, text))


def plain_clients_learn_nothing(fs):
    """A client without TLS gets at most an alert as the answer, and the server logs it once."""
    with socket.create_connection(("127.0.0.1", fs.port)) as peer:
        peer.settimeout(20)
        peer.sendall(b"SPATEtcp" + bytes(56))
        got = b""
        try:
            while part := peer.recv(4096):
                got += part
        except ConnectionResetError:
            pass
    check(got == b"\x15\x03\x03\0\x02\x02\x46", "no alert of TLS, or more in clear: %r" % got)
    wait_until(lambda: "the client does not speak TLS" in fs.log(1), "the server's log names the plain client")


def check_by_keys():
    with Cluster(io=2) as fs:
        fs.up("--tls")
        fs.spate("put", "spate:/a", input=DATA)
        check(fs.spate("get", "spate:/a") == DATA, "other data than were written")
        says(fs.spate("ping").decode(), "tcp+tls://127.0.0.1:%d" % fs.port, "TLS 1.3 TLS_AES_128_GCM_SHA256, by key")
        says(fs.spate("status").decode(), "TLS 1.3")
        says(fs.spate("config", "check").decode(), "ok")
        plain_clients_learn_nothing(fs)
        # The key of another file system.
        wrong = fs.root + "/wrong.key"
        with open(wrong, "w") as f:
            f.write(os.urandom(32).hex() + "\n")
        os.chmod(wrong, 0o600)
        said = fs.fails("--set", "client.deadline=3 s", "ls", "spate:/", env={"SPATE_FS_CLIENT_KEY_FILE": wrong})
        says(said, "TLS: the server does not accept this key")
        # A client that uses tcp:// is not admitted either.
        with open(fs.dir + "/spate.toml") as f:
            text = f.read()
        plain = fs.root + "/plain.toml"
        with open(plain, "w") as f:
            f.write(text.replace("tcp+tls://", "tcp://"))
        said = fs.fails("--fs", plain, "--set", "client.deadline=3 s", "ls", "spate:/")
        says(said, "the server speaks TLS: its spate.toml may have tcp+tls:// for this tcp:// address")
        # A user's key also works as a key of TLS.
        mine = fs.root + "/user.key"
        fs.spate("key", "issue", "--uid", "4711", "--gid", "4711", "-o", mine)
        check(fs.spate("ls", "spate:/", env={"SPATE_FS_CLIENT_KEY_FILE": mine}) == b"a\n", "a user's key does not get in")
        fs.fsck()


def check_tls_client_of_plain_server():
    """A client whose spate.toml has tcp+tls:// where the server has tcp://: both say so, the server once."""
    with Cluster(io=1) as fs:
        fs.up("--tcp-only")
        with open(fs.dir + "/spate.toml") as f:
            text = f.read()
        with open(fs.dir + "/tls.toml", "w") as f:
            f.write(text.replace("tcp://", "tcp+tls://"))
        said = fs.fails("--fs", fs.dir + "/tls.toml", "--set", "client.deadline=3 s", "ls", "spate:/")
        says(said, "TLS: the server does not speak TLS: its spate.toml may have tcp:// for this tcp+tls:// address")
        line = "the client speaks TLS: its spate.toml may have tcp+tls:// for this tcp:// address"
        wait_until(lambda: line in fs.log(1), "the server's log names the client that speaks TLS")
        fs.spate("ls", "spate:/")


def use_certificates(fs, authority, server, keys_too):
    path = fs.dir + "/spate.toml"
    with open(path) as f:
        text = f.read()
    text = text.replace("tcp://127.0.0.1", "tcp+tls://127.0.0.1")
    text = text.replace("\n[tls]\n", '\n[tls]\nca = "%s"\ncertificate = "%s"\nkey = "%s"\nrevoked = "%s"\n' % (authority.ca, *server, authority.revoke()))
    if not keys_too:
        text = text.replace("\n[fs]\n", '\n[fs]\nauth = "tls"\n')
    with open(path, "w") as f:
        f.write(text)


def refusals(fs, authority, client):
    """The client prints one clear sentence for each refusal. The server logs one line in ten seconds, however many are
    refused."""
    def refused(certificate, key, at_client, at_server=None):
        said = fs.fails("--set", "client.deadline=3 s", "ls", "spate:/", env=variables(authority, certificate, key))
        says(said, at_client)
        if at_server:
            wait_until(lambda: at_server in fs.log(1), "the server's log says: " + at_server)

    other = Authority(fs.root + "/other")
    refused(*other.issue("foreign"), "does not accept this side's certificate: its tls.ca has not signed it",
            "the client's certificate is not signed by tls.ca")
    own = fs.root + "/self.pem", fs.root + "/self.key"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-subj", "/CN=me",
            "-keyout", own[1], "-out", own[0])
    refused(*own, "does not accept this side's certificate")
    refused(*authority.issue_expired("late"), "TLS: the server does not accept this side's certificate: it has expired")
    refused("/nonexistent.pem", client[1], "/nonexistent.pem: No such file")
    refused(client[0], authority.issue("x")[1], "is not the key of " + client[0])
    os.chmod(client[1], 0o644)
    refused(*client, "can be read or changed by others; chmod 600 it")
    os.chmod(client[1], 0o600)


def replaced_without_restart(fs, authority, server, client):
    """The server's certificate is replaced: first by one for another host, which clients refuse, then by a good one."""
    env = variables(authority, *client)

    def replace(fresh):
        os.rename(fresh[1], server[1])
        os.rename(fresh[0], server[0])
    replace(authority.issue("moved", alternative="DNS:elsewhere.example"))
    said = fs.fails("--set", "client.deadline=3 s", "ls", "spate:/", env=env)
    says(said, "TLS: the server's certificate is for another host, not for 127.0.0.1")
    replace(authority.issue("renewed"))
    check(fs.spate("ls", "spate:/", env=env) == b"a\n", "the new certificate is not used")
    check(fs.log(1).count("were read again") >= 1, "the server does not say that it took the new certificate")


def revoked_in_use(fs, authority):
    """A certificate that was just accepted is refused as soon as the list has it. The other clients and the servers go
    on."""
    taken = authority.issue("taken", alternative="DNS:taken")
    check(fs.spate("ls", "spate:/", env=variables(authority, *taken)) == b"a\n", "a good certificate is refused")
    authority.revoke(taken[0])
    said = fs.fails("--set", "client.deadline=3 s", "ls", "spate:/", env=variables(authority, *taken))
    says(said, "TLS: the server does not accept this side's certificate: it was revoked")


def config_check(fs, authority):
    said = fs.run("config", "check", env=variables(authority, *authority.issue("soon", days="3")))
    says(said.stdout.decode(), "tls.certificate: ", " expires in ")
    config, index = authority.folder + "/short.cnf", authority.folder + "/revoked.index"
    with open(config, "w") as f:
        f.write("[ca]\ndefault_ca=d\n[d]\ndatabase=%s\ndefault_md=sha256\ndefault_crl_days=10\n" % index)
    openssl("ca", "-config", config, "-cert", authority.ca, "-keyfile", authority.ca_key, "-gencrl", "-out", fs.root + "/short.pem")
    said = fs.run("config", "check", env=dict(variables(authority, *authority.issue("fresh")), SPATE_TLS_REVOKED=fs.root + "/short.pem"))
    says(said.stdout.decode(), "tls.revoked: ", " expires in ")
    said = fs.run("config", "check", env=variables(authority, *authority.issue_expired("gone")))
    check(said.returncode != 0, "an expired certificate is called good")
    says(said.stdout.decode(), "has expired")
    said = fs.fails("config", "check", env={"SPATE_TLS_CA": ""})
    says(said, "are set together")


def check_by_certificates(keys_too):
    with Cluster(io=1) as fs:
        fs.up("--tcp-only")
        fs.spate("put", "spate:/a", input=DATA)
        fs.spate("down", "-q", "--dir", fs.dir)
        authority = Authority(fs.root + "/authority")
        server, client = authority.issue("server"), authority.issue("client", alternative="DNS:client")
        use_certificates(fs, authority, server, keys_too)
        fs.up()
        env = variables(authority, *client)
        if not keys_too:
            env["SPATE_FS_CLIENT_KEY_FILE"] = "/nonexistent.key"
        check(fs.spate("get", "spate:/a", env=env) == DATA, "other data than were written")
        says(fs.spate("ping", env=env).decode(), ", by certificate")
        refusals(fs, authority, client)
        revoked_in_use(fs, authority)
        check(fs.spate("get", "spate:/a", env=env) == DATA, "another certificate is refused, too")
        if keys_too:
            config_check(fs, authority)
            replaced_without_restart(fs, authority, server, client)
        fs.fsck()


check_by_keys()
check_tls_client_of_plain_server()
for keys_too in (True, False):
    check_by_certificates(keys_too)
