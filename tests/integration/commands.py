#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output and effects of commands: du, ln, rm -f, mv -n and -x, setstripe, getstripe; JSON; closed descriptors; a server
that is down."""
import json
import os
import re
import subprocess

from cluster import SPATE, SPATED, Cluster, check, wait_until


def says(text, *words):
    for word in words:
        check(word in text, "%r is not in: %s" % (word, text))


def links(fs):
    fs.spate("put", "spate:/one", input=b"first")
    fs.spate("ln", "spate:/one", "spate:/two")
    check(json.loads(fs.spate("stat", "--json", "spate:/two"))[0]["links"] == 2, "ln makes no second name")
    fs.spate("ln", "-s", "two", "spate:/three")
    check(fs.spate("cat", "spate:/three") == b"first", "the symbolic link does not lead on")
    says(fs.fails("ln", "spate:/one", "spate:/two"), "spate:/two", "exist")
    fs.spate("rm", "spate:/one", "spate:/three")
    check(fs.spate("cat", "spate:/two") == b"first", "the other name has lost the content")


def removing(fs):
    says(fs.fails("rm", "spate:/none"), "spate:/none")
    fs.spate("rm", "-f", "spate:/none")
    fs.spate("rm", "-f", "spate:/none", "spate:/two")
    check(fs.run("stat", "spate:/two").returncode == 1, "rm -f removes nothing")


def moving(fs):
    for name in ("a", "b"):
        fs.spate("put", "spate:/" + name, input=name.encode())
    says(fs.fails("mv", "-n", "spate:/a", "spate:/b"), "exist")
    check(fs.spate("cat", "spate:/a") == b"a" and fs.spate("cat", "spate:/b") == b"b", "mv -n has changed something")
    fs.spate("mv", "-x", "spate:/a", "spate:/b")
    check(fs.spate("cat", "spate:/a") == b"b" and fs.spate("cat", "spate:/b") == b"a", "mv -x does not exchange")
    says(fs.fails("mv", "-x", "spate:/a", "spate:/none"), "spate:/")
    fs.spate("mv", "-n", "spate:/a", "spate:/c")
    check(fs.spate("cat", "spate:/c") == b"b", "mv -n to a new name")
    fs.spate("rm", "spate:/b", "spate:/c")


def layouts(fs):
    fs.spate("mkdir", "spate:/big")
    fs.spate("setstripe", "-S", "64K", "-c", "2", "spate:/big")
    told = json.loads(fs.spate("getstripe", "--json", "spate:/big"))[0]
    check(told["strip_bytes"] == "65536" and told["strip_count"] == "2", "getstripe of the directory: %s" % told)
    fs.spate("put", "spate:/big/file", input=os.urandom(300000))
    told = json.loads(fs.spate("getstripe", "--json", "spate:/big/file"))[0]
    check(told["strip_bytes"] == 65536 and len(told["slots"]) == 2, "getstripe of the file: %s" % told)
    says(fs.spate("getstripe", "spate:/big/file").decode(), "spate:/big/file", "2 targets")
    says(fs.fails("setstripe", "-c", "1", "spate:/big/file"), "spate:/big/file", "layout")
    fs.spate("setstripe", "-c", "1", "spate:/single")
    check(len(json.loads(fs.spate("getstripe", "--json", "spate:/single"))[0]["slots"]) == 1, "setstripe -c 1 on a new file")


def distributions(fs):
    fs.spate("mkdir", "spate:/uneven")
    fs.spate("setstripe", "-d", "varstrip:64K,1M", "spate:/uneven")
    said = fs.spate("getstripe", "spate:/uneven").decode()
    says(said, "varstrip:64 KiB,1 MiB")
    content = os.urandom(3000000)
    fs.spate("put", "spate:/uneven/file", input=content)
    check(fs.spate("cat", "spate:/uneven/file") == content, "a file with strips of two sizes holds what was written")
    told = json.loads(fs.spate("getstripe", "--json", "spate:/uneven/file"))[0]
    check(told["distribution"] == "varstrip:64 KiB,1 MiB" and len(told["slots"]) == 2, "getstripe of the file: %s" % told)
    fs.spate("cp", "spate:/uneven/file", "spate:/copy")
    told = json.loads(fs.spate("getstripe", "--json", "spate:/copy"))[0]
    check(told["distribution"] == "varstrip:64 KiB,1 MiB", "cp within keeps the distribution: %s" % told)
    fs.spate("setstripe", "--distribution", "basic", "spate:/whole")
    says(fs.spate("stat", "spate:/whole").decode(), "layout: basic", "1 target")
    says(fs.fails("setstripe", "-d", "striped", "spate:/new"), "there is no distribution", "simple_stripe", "varstrip")
    says(fs.fails("setstripe", "-d", "varstrip:1K", "spate:/new"), "4 KiB to 4 GiB")


def usage(fs):
    told = json.loads(fs.spate("du", "--json", "spate:/big"))[0]
    check(told["size"] == 300000 and told["objects"] == 2, "du: %s" % told)
    says(fs.spate("du", "spate:/").decode(), "spate:/big\n", "spate:/\n")
    check(len(fs.spate("du", "-s", "spate:/").splitlines()) == 1, "du -s prints more than the total")


def too_many_targets(fs):
    for path in ("spate:/big", "spate:/new"):
        says(fs.fails("setstripe", "-c", "99", path), "99", "%d targets" % fs.io)
        says(fs.fails("setstripe", "-i", "99", path), "99", "no such target")
    told = json.loads(fs.spate("getstripe", "--json", "spate:/big"))[0]
    check(told["strip_count"] == "2" and told["first_target"] == "default", "a refused setstripe has changed: %s" % told)
    check(fs.run("stat", "spate:/new").returncode == 1, "a refused setstripe has made a file")


def names_of_any_bytes(fs):
    """A name of any bytes can be recovered from JSON and from printed output."""
    names = [b"\xff\xfe", b"back\\xff", b"line\nbreak", "Gr\u00fc\u00dfe".encode()]
    fs.spate("mkdir", "spate:/names")
    for name in names:
        fs.spate("put", os.fsdecode(b"spate:/names/" + name), input=b"")

    def bytes_of(shown):
        return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m.group(1), 16)]), shown.encode())
    listed = json.loads(fs.spate("ls", "--json", "spate:/names"))
    check(sorted(bytes_of(e["name"]) for e in listed) == sorted(names), "ls --json: %s" % [e["name"] for e in listed])
    lines = fs.spate("ls", "spate:/names").decode().splitlines()
    check(sorted(bytes_of(line) for line in lines) == sorted(names), "ls: %s" % lines)
    for command in ("stat", "du", "getstripe"):
        path = json.loads(fs.spate(command, "--json", os.fsdecode(b"spate:/names/" + names[0])))[0]["path"]
        check(bytes_of(path) == b"spate:/names/" + names[0], "%s --json: %r" % (command, path))


def without_standard_descriptors(fs):
    """A closed standard descriptor is never reused for a file of the command's own. The message names the closed
    descriptor."""
    fs.spate("put", "spate:/data", input=b"x" * 100000)

    def run(*args, closed):
        done = subprocess.run([SPATE, *args], env=fs.env, preexec_fn=lambda: os.close(closed), timeout=30, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stderr.decode()
    code, said = run("cat", "spate:/data", closed=1)
    check(code == 1 and "ad descriptor" in said or "ad file descriptor" in said, "cat >&-: exit %d, %s" % (code, said))
    code, said = run("put", "spate:/none", closed=0)
    check(code == 1 and "ad descriptor" in said or "ad file descriptor" in said, "put <&-: exit %d, %s" % (code, said))
    check(run("ls", "spate:/", closed=2)[0] == 0, "ls 2>&-")
    # A server runs with closed standard descriptors: null devices take their places.
    pid = fs.pids()[2]
    fs.kill(2)

    def close_all():
        for fd in (0, 1, 2):
            os.close(fd)
    server = subprocess.Popen([SPATED, "--config", fs.dir + "/spate.toml", "--server", "2"], env=fs.env, preexec_fn=close_all)
    fs.seen.add(server.pid)
    wait_until(lambda: fs.run("stats", "2").returncode == 0, "it serves")
    check(fs.spate("cat", "spate:/data") == b"x" * 100000, "the data are there")
    check([os.readlink("/proc/%d/fd/%d" % (server.pid, fd)) for fd in (0, 1, 2)] == ["/dev/null"] * 3, "standard descriptors of spated are something else")
    server.terminate()
    check(server.wait(20) == 0 and pid != server.pid, "it does not end in order")
    fs.up()


def one_server_down(fs):
    """With one server down, a command prints all that it can find out and names the dead server once, and its exit code
    shows that the result is incomplete."""
    dead = 3
    fs.kill(dead)

    def fails(*args):
        done = fs.run(*args)
        check(done.returncode == 1, "%s: exit %d" % (args, done.returncode))
        told = "\n".join(line for line in done.stderr.splitlines() if "has waited" not in line)
        check(told.count("server %d" % dead) == 1 and fs.url(dead) in told, "%s: %s" % (args, done.stderr))
        return done.stdout.decode()
    says(fails("df"), "file system", "server 2 target", "server 4 target", "server %d" % dead, "DOWN")
    told = json.loads(fails("df", "--json"))
    check({t["server"] for t in told["targets"]} == {2, 4} and [m["server"] for m in told["missing"]] == [dead], "df --json: %s" % told)
    says(fails("stats"), "server 2 (io)", "server 4 (io)")
    check([("error" in row, row["server"]) for row in json.loads(fails("ping", "--json", "--timeout", "5000"))] == [(s == dead, s) for s in (1, 2, 3, 4)], "ping --json")
    done = fs.run("status", "--json")
    check(done.returncode == 1 and [row["up"] for row in json.loads(done.stdout)] == [True, True, False, True], "status --json: %s" % done.stdout)
    fs.up()
    # Without the meta server the io servers still answer holders of the server key.
    dead = 1
    fs.kill(dead)
    says(fails("stats"), "server 2 (io)", "server 3 (io)", "server 4 (io)")
    fs.up()


def json_of_the_rest(fs):
    told = json.loads(fs.run("up", "--json", "--dir", fs.dir).stdout)
    check(told["servers"] == fs.io + 1 and told["started"] == 0 and told["folder"] == fs.dir, "up --json: %s" % told)
    told = json.loads(fs.spate("config", "explain", "--json", "meta.sync"))
    check([row["key"] for row in told] == ["meta.sync"] and told[0]["variable"] == "SPATE_META_SYNC", "config explain --json: %s" % told)
    told = json.loads(fs.spate("config", "show", "--json"))
    values = {row["key"]: row["value"] for row in told}
    check(values["meta.sync"] == "100 ms" and values["servers[1].id"] == 2 and values["servers[0].roles"] == ["meta"], "config show --json: %s" % values)
    told = json.loads(fs.spate("down", "--json"))
    check(told == {"folder": fs.dir, "stopped": fs.io + 1}, "down --json: %s" % told)


with Cluster(io=3) as fs:
    fs.up()
    links(fs)
    removing(fs)
    moving(fs)
    layouts(fs)
    distributions(fs)
    usage(fs)
    too_many_targets(fs)
    names_of_any_bytes(fs)
    without_standard_descriptors(fs)
    one_server_down(fs)
    json_of_the_rest(fs)
