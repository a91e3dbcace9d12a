#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line of `spate export`: the effect of each word, names and access lists, and the messages about wrong
words."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse

from common import BIN, SPATE, Cluster, Export, check, timed, wait_until
from nbd_wire import *  # noqa: F403


def listed(c):
    return [data[4:].decode() for kind, data in c.option(OPT["LIST"]) if kind == SERVER]


def help_names_every_word(fs):
    """The command and the program that it starts have the same words, except those that only the command's other uses
    and spated need."""
    def named(*words):
        said = subprocess.run([*words, "--help"], stdout=subprocess.PIPE, timeout=20)
        check(said.returncode == 0, "%s: exit %d" % (words, said.returncode))
        return set(re.findall(r"--[a-z][a-z-]+", said.stdout.decode()))
    command, program = named(SPATE, "export"), named(os.path.join(BIN, "spate-export"))
    check(command ^ program == {"--json", "--server"}, "only one of them names %s" % (command ^ program))


def urls_are_escaped(fs):
    """The printed URL leads to the export, whatever its name."""
    names = ("plain", "two words", "a/b", "\u00e4?#%")
    with Export("-p", "0", *(name + "=" + fs.root + "/disk" for name in names)) as export:
        urls = [export.url] + [export.process.stdout.readline().decode().strip() for _ in names[1:]]
        for name, url in zip(names, urls):
            parts = urllib.parse.urlsplit(url)
            check(urllib.parse.unquote(parts.path[1:]) == name and not parts.query and not parts.fragment, "the URL of %r is %s" % (name, url))
            with Connection((parts.hostname, parts.port)) as c:
                c.go(urllib.parse.unquote(parts.path[1:])).read(0, 512)
    with Export("-n", "one name", "-U", fs.root + "/socket", fs.root + "/disk") as export:
        parts = urllib.parse.urlsplit(export.url)
        check((parts.scheme, parts.path, parts.query) == ("nbd+unix", "/one%20name", "socket=" + fs.root + "/socket"), export.url)
        with Connection(fs.root + "/socket") as c:
            check(listed(c) == ["one name"], "the list is %r" % listed(c))
            c.go("").read(0, 512)


def several_addresses(fs):
    """Each --bind adds an address, also IPv6. An access list distinguishes them."""
    if not has_ipv6():
        return print("IPv6 was not looked at: there is none")
    with Export("-p", "0", "-b", "127.0.0.1", "-b", "::1", "--allow", "six=::1", "six=" + fs.root + "/disk", "both=" + fs.root + "/disk") as export:
        urls = [export.url] + [export.process.stdout.readline().decode().strip() for _ in range(3)]
        ends = sorted({(urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port) for url in urls})
        check([host for host, _ in ends] == ["127.0.0.1", "::1"], "%s" % urls)
        for (host, port), sees in zip(ends, (["both"], ["six", "both"])):
            with Connection((host, port)) as c:
                check(listed(c) == sees, "who comes by %s sees %s" % (host, listed(c)))


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def read_only(fs):
    with Export("-p", "0", "-r", fs.root + "/disk") as export, Connection(export.address) as c:
        check(c.go("").flags & READ_ONLY and c.request(WRITE, 0, 512, 0, bytes(512)).error == EPERM, "it can be written")


def quiet_and_verbose(fs):
    """Either nothing is printed, or a line for each connection."""
    path = fs.root + "/socket"
    for word, says in (("-q", False), ("-v", True)):
        process = subprocess.Popen([SPATE, "export", word, "-U", path, fs.root + "/disk"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: os.path.exists(path) and serves(path), "it serves")
        process.terminate()
        out, err = process.communicate(timeout=20)
        check(process.returncode == 0 and (out != b"") == says and (b"connected" in err) == says, "%s: %r, %r" % (word, out, err))


def serves(path):
    try:
        with Connection(path) as c:
            return len(c.go("").read(0, 512)) == 512
    except OSError:
        return False


def sources_like_options(fs):
    """Every word behind `--` is a source. A file whose name has a '=' is exported by this name."""
    for name in ("-odd", "a=b"):
        with open(os.path.join(fs.root, name), "wb") as f:
            f.truncate(8192)
    with Export("-p", "0", "--", "-odd", cwd=fs.root) as export, Connection(export.address) as c:
        check(c.go("").size == 8192, "another file")
    with Export("--port=0", "a=b", cwd=fs.root) as export, Connection(export.address) as c:
        check(listed(c) == [""], "it is taken for a name")
        check(c.go("").size == 8192, "another file")


def beyond_this_machine(fs):
    """Only with --insecure may others connect without TLS. Runs in its own network, which leads nowhere."""
    alone = ["unshare", "-r", "-n"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return print("addresses of other machines were not looked at: no network can be made")
    words = [*alone, SPATE, "export", "--bind", "0.0.0.0", fs.root + "/disk"]
    refused = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    check(refused.returncode == 1 and b"--insecure" in refused.stderr, "%r" % refused.stderr)
    process = subprocess.Popen([*words, "--insecure"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    check(process.returncode == 0 and url == b"nbd://0.0.0.0:10809\n", "%r, %r" % (url, err))


def sockets_left_behind(fs):
    """The socket of a killed process is replaced. A socket in use, or a file that is no socket, is left alone."""
    path = fs.root + "/socket"
    with Export("-U", path, fs.root + "/disk") as export:
        second = fs.run("export", "-U", path, fs.root + "/disk")
        check(second.returncode == 1 and "somebody listens" in second.stderr, "%r" % second.stderr)
        export.alive()
        killed = Export("-U", path + "2", fs.root + "/disk")
        killed.process.kill()
        killed.process.communicate()
        check(os.path.exists(path + "2"), "nothing was left behind, so this test sees nothing")
        with Export("-U", path + "2", fs.root + "/disk") as again:
            again.alive()
    with open(path, "w") as f:
        f.write("precious")
    refused = fs.run("export", "-U", path, fs.root + "/disk")
    check(refused.returncode == 1 and "is no socket" in refused.stderr and open(path).read() == "precious", "%r" % refused.stderr)
    os.unlink(path)
    refused = fs.run("export", "-U", "/" + "x" * 200, fs.root + "/disk")
    check(refused.returncode == 1 and "characters" in refused.stderr, "%r" % refused.stderr)


def names_and_access(fs):
    path = os.path.join(fs.root, "disk")
    other = os.path.join(fs.root, "other disk")
    with open(other, "wb") as f:
        f.truncate(12345)
    with Export("--port", "0", "one=" + path, "two words=" + other) as export:
        with Connection(export.address) as c:
            listed = [data[4:] for kind, data in c.option(OPT["LIST"]) if kind == SERVER]
            check(listed == [b"one", b"two words"], "the list is %r" % listed)
            check(c.go("two words").size == 12345, "wrong size")
        with Connection(export.address) as c:
            check(c.go("").size != 12345, "the default is not the first export")
    unix = os.path.join(fs.root, "socket")
    with Export("--port", "0", "--unix", unix, "--allow", "unix,192.0.2.0/24", path) as export:
        tcp = export.process.stdout.readline().decode().strip()
        host, _, port = tcp.split("://")[1].partition("/")[0].rpartition(":")
        with Connection(unix) as c:
            c.go("").read(0, 1)
        with Connection((host, int(port))) as c:
            check([kind for kind, _ in c.option(OPT["LIST"])] == [ACK], "a list for somebody who may not use it")
            check(c.option(OPT["GO"], go_data(""))[-1][0] == ERR_UNKNOWN, "an export for somebody who may not use it")
        check(os.stat(unix).st_mode & 0o777 == 0o600, "others may connect to the socket")
    with Export("--port", "0", "--allow", "127.0.0.0/8", "--allow", "one=192.0.2.0/24", "one=" + path, "two=" + other) as export:
        with Connection(export.address) as c:
            listed = [data[4:] for kind, data in c.option(OPT["LIST"]) if kind == SERVER]
            check(listed == [b"two"], "the list is %r" % listed)
            check(c.option(OPT["GO"], go_data("one"))[-1][0] == ERR_UNKNOWN, "an export for somebody who is not in its own list")
            check(c.go("two").size == 12345, "wrong size")


def wrong_words(fs):
    for words, said in ((["/nonexistent"], "/nonexistent"), (["/dev/null"], "neither a file"), (["--port", "99999", "/x"], "--port"),
                        (["--allow", "everybody", "--port", "0", SPATE], "everybody"), (["--bind", "no.such.host.invalid", SPATE], "no.such.host"),
                        (["-r", SPATE, SPATE], "two exports"),
                        (["--allow", "b=unix", "--port", "0", "a=" + SPATE], "no export"), (["--allow", "cert:alice", "--port", "0", SPATE], "ca-cert.pem"),
                        (["--allow", "psk:alice", "--port", "0", SPATE], "tls-psk"), (["spate:/x", "--fs", "/nonexistent"], "/nonexistent")):
        done = subprocess.run([SPATE, "export", *words], env=fs.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
        check(done.returncode in (1, 2) and said in done.stderr.decode(), "%r: exit %d, %r" % (words, done.returncode, done.stderr))


def main():
    with Cluster(io=1) as fs:
        with open(fs.root + "/disk", "wb") as f:
            f.truncate(1 << 20)
        for test in (help_names_every_word, urls_are_escaped, several_addresses, read_only, quiet_and_verbose, sources_like_options, beyond_this_machine,
                     sockets_left_behind, names_and_access, wrong_words):
            with timed(test.__name__):
                test(fs)


if __name__ == "__main__":
    sys.exit(main())
