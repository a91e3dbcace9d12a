#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate status`, `ping` and `stats` name the step to a server that failed: its name, its port, another program at the
port, or the key."""
import json
import os
import signal

from cluster import Cluster, check


def says(text, *words):
    for word in words:
        check(word in text, "%r is not in: %s" % (word, text))


def line_of(text, server):
    """Returns what status prints about one server, behind its address."""
    line = next(one for one in text.splitlines() if one.startswith("server %d " % server))
    return line.split("tcp://", 1)[1].split(None, 1)[1]


def config_with(fs, name, change):
    """Writes another spate.toml next to the file system's own. `change` gives its text."""
    with open(fs.dir + "/spate.toml") as f:
        text = change(f.read())
    path = "%s/%s.toml" % (fs.root, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def wrong_key(fs):
    key = fs.root + "/wrong.key"
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write("ab" * 32 + "\n")
    config = config_with(fs, "key", lambda text: text.replace(fs.dir + "/keys/client.key", key))
    done = fs.run("--fs", config, "status")
    check(done.returncode == 1 and done.stdout.count(b"REFUSED wrong client key") == 3, "status: %s%s" % (done.stdout, done.stderr))
    check("down" not in done.stderr, "a server that refuses the key is taken for a dead one: " + done.stderr)
    told = json.loads(fs.run("--fs", config, "status", "--json").stdout)
    check([(row["up"], row["code"]) for row in told] == [(False, "unauthenticated")] * 3, "status --json: %s" % told)
    done = fs.run("--fs", config, "ping")
    check(done.returncode == 1 and done.stdout == b"" and done.stderr.count("wrong client key") == 3, "ping: %s%s" % (done.stdout, done.stderr))
    done = fs.run("--fs", config, "stats")
    check(done.returncode == 1 and done.stdout == b"" and len(done.stderr.splitlines()) == 1, "stats: %s%s" % (done.stdout, done.stderr))
    for command in (["ping"], ["ls", "spate:/"]):
        said = fs.run("--fs", config, *command).stderr
        check(all(line.endswith("use the key files of this file system") for line in said.splitlines()), "an errno behind a sentence: " + said)


def no_such_name(fs):
    config = config_with(fs, "name", lambda text: text.replace(fs.url(2), "tcp://no-such-host.invalid:7402"))
    why = "the name no-such-host.invalid does not resolve"
    says(line_of(fs.run("--fs", config, "status").stdout.decode(), 2), "DOWN", why)
    says(fs.run("--fs", config, "ping").stderr, "server 2 (tcp://no-such-host.invalid:7402)", why)


def another_server(fs):
    """In this file servers 2 and 3 have each other's addresses."""
    def swapped(text):
        return text.replace(fs.url(2), "X").replace(fs.url(3), fs.url(2)).replace("X", fs.url(3))

    config = config_with(fs, "swapped", swapped)
    says(line_of(fs.run("--fs", config, "status").stdout.decode(), 2), "REFUSED", "this is server 3, not server 2")


def nobody_there(fs):
    fs.kill(2)
    done = fs.run("status")
    says(line_of(done.stdout.decode(), 2), "DOWN", "nobody listens there")
    says(done.stderr, "1 of 3 servers is down")
    says(fs.run("ping").stderr, "server 2 (%s) cannot be reached: nobody listens there" % fs.url(2))
    told = fs.run("stats").stdout.decode()
    says(told, "\n2 of 3 servers\n")
    check("all 3 servers" not in told, "a server that did not answer is counted: " + told)
    fs.up()
    says(fs.spate("stats").decode(), "\nall 3 servers\n")


def no_answer(fs):
    fs.kill(3, sig=signal.SIGSTOP)
    try:
        says(line_of(fs.run("status").stdout.decode(), 3), "DOWN")
    finally:
        fs.kill(3, sig=signal.SIGCONT)
    check(fs.run("status").returncode == 0, "after it goes on")


def main():
    with Cluster(io=2) as fs:
        fs.up("--tcp-only")
        wrong_key(fs)
        no_such_name(fs)
        another_server(fs)
        nobody_there(fs)
        no_answer(fs)


main()
