#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Habits from ls, df, du, chmod, find, head, tail and the shell work with `spate`, too."""
import json
import os
import re
import subprocess

from cluster import SPATE, Cluster, check, same_tree, wait_until


def lines(fs, *args):
    return fs.spate(*args).decode().splitlines()


def equal(got, expected, what):
    check(got == expected, "%s: %r instead of %r" % (what, got, expected))


def says(text, *words):
    for word in words:
        check(word in text, "%r is not in: %s" % (word, text))


def ended(fs, code, *args, **more):
    """Runs a command that must end with `code`. Returns its standard error."""
    done = fs.run(*args, **more)
    check(done.returncode == code, "spate %s: exit %d instead of %d, said: %s" % (" ".join(args), done.returncode, code, done.stderr))
    return done.stderr


def listing(fs):
    fs.spate("mkdir", "-p", "spate:/l")
    for name, size, day in (("b", 10, 3), ("a", 3000, 1), (".hidden", 20, 2)):
        fs.spate("put", "spate:/l/" + name, input=b"x" * size)
        fs.spate("touch", "-d", "2026-01-0%d 12:30:15" % day, "spate:/l/" + name)
    equal(lines(fs, "ls", "spate:/l"), ["a", "b"], "ls")
    equal(lines(fs, "ls", "-a", "spate:/l"), [".hidden", "a", "b"], "ls -a")
    equal(lines(fs, "ls", "-at", "spate:/l"), ["b", ".hidden", "a"], "ls -at")
    equal(lines(fs, "ls", "-aS", "spate:/l"), ["a", ".hidden", "b"], "ls -aS")
    equal(lines(fs, "ls", "-aSr", "spate:/l"), ["b", ".hidden", "a"], "ls -aSr")
    says("\n".join(lines(fs, "ls", "-lah", "spate:/l")), "2.93 KiB 2026-01-01 12:30 a")
    equal(lines(fs, "ls", "-d", "spate:/l"), ["/l"], "ls -d")
    equal({e["name"] for e in json.loads(fs.spate("ls", "--json", "spate:/l"))}, {"a", "b", ".hidden"}, "ls --json")
    says(fs.spate("ls", "-l", "--time-style", "+%d.%m.%Y", "spate:/l/a").decode(), " 01.01.2026 ")
    says(fs.spate("stat", "spate:/l/a").decode(), "modified: 2026-01-01 12:30:15 ")
    says(fs.spate("stat", "--time-style=full-iso", "spate:/l/a").decode(), "12:30:15.000000000 ")
    says(ended(fs, 2, "ls", "--time-style", "german", "spate:/l"), "german")


def space(fs):
    says(fs.spate("df", "-h").decode(), "file system", "server 2 target")
    head = lines(fs, "df")[0].split()
    equal(head, ["size", "used", "free", "use%", "state"], "df's first line")
    says(fs.spate("df", "-v").decode(), "objects", "store")
    equal([line.split()[-1] for line in lines(fs, "du", "-h", "-s", "spate:/l")], ["spate:/l"], "du -h -s")
    equal(lines(fs, "du", "-b", "spate:/l/a")[0].split()[1], "3000", "du -b")


def patterns(fs):
    fs.spate("mkdir", "-p", "spate:/p/one", "spate:/p/two")
    for name in ("one/x1", "one/x2", "two/x1", "one/.x"):
        fs.spate("put", "spate:/p/" + name, input=name.encode())
    equal(fs.spate("cat", "spate:/p/*/x1"), b"one/x1two/x1", "cat of a pattern")
    equal(lines(fs, "ls", "spate:/p/one/x?"), ["/p/one/x1", "/p/one/x2"], "ls of a pattern")
    equal(lines(fs, "ls", "spate:/p/t[wx]o"), ["x1"], "ls of a set")
    says(ended(fs, 1, "rm", "spate:/p/none*"), "spate:/p/none*", "no such file")
    # An existing name is not taken for a pattern.
    for name in ("[ab]", "a"):
        fs.spate("put", "spate:/p/two/" + name, input=b"")
    fs.spate("rm", "spate:/p/two/[ab]")
    equal(lines(fs, "ls", "spate:/p/two"), ["a", "x1"], "rm of a name in brackets")
    fs.spate("mv", "spate:/p/one/x*", "spate:/p/two")
    equal(lines(fs, "ls", "-a", "spate:/p/one"), [".x"], "mv of a pattern")
    fs.spate("rm", "spate:/p/two/\\x*")
    equal(lines(fs, "ls", "spate:/p/two"), ["a"], "rm of a pattern with a backslash")


def attributes(fs):
    fs.spate("mkdir", "-p", "spate:/m/below")
    fs.spate("touch", "spate:/m/file", "spate:/m/below/file")
    mode = lambda path: json.loads(fs.spate("stat", "--json", path))[0]["mode"]
    fs.spate("chmod", "640", "spate:/m/file")
    equal(mode("spate:/m/file"), "0640", "chmod 640")
    fs.spate("chmod", "u+x,g=u", "spate:/m/file")
    equal(mode("spate:/m/file"), "0770", "chmod u+x,g=u")
    fs.spate("chmod", "-R", "go-rwx", "spate:/m")
    equal([mode("spate:/m" + p) for p in ("", "/below", "/below/file")], ["0700", "0700", "0600"], "chmod -R")
    says(ended(fs, 2, "chmod", "rwx", "spate:/m"), "rwx")
    says(ended(fs, 1, "chmod", "600", "spate:/none"), "spate:/none")
    if os.geteuid() == 0:
        fs.spate("chown", "-R", "1234:5678", "spate:/m")
        told = json.loads(fs.spate("stat", "--json", "spate:/m/below/file"))[0]
        equal((told["uid"], told["gid"]), (1234, 5678), "chown -R")
        fs.spate("chown", ":root", "spate:/m/file")
        told = json.loads(fs.spate("stat", "--json", "spate:/m/file"))[0]
        equal((told["uid"], told["gid"]), (1234, 0), "chown :root")
    says(ended(fs, 2, "chown", "nobody-of-that-name", "spate:/m"), "nobody-of-that-name")
    fs.spate("touch", "-c", "spate:/m/none")
    check(fs.run("stat", "spate:/m/none").returncode == 1, "touch -c has made a file")
    fs.spate("touch", "-m", "-d", "@1000000000", "spate:/m/file")
    told = json.loads(fs.spate("stat", "--json", "spate:/m/file"))[0]
    check(told["mtime_ns"] == 10**18 and told["atime_ns"] > 10**18, "touch -m: %s" % told)
    says(ended(fs, 1, "rmdir", "spate:/m"), "spate:/m", "not empty")
    fs.spate("rm", "spate:/m/below/file")
    fs.spate("rmdir", "spate:/m/below")
    fs.spate("rm", "-r", "-f", "spate:/m")


def finding(fs):
    fs.spate("mkdir", "-p", "spate:/f/a/b")
    fs.spate("put", "spate:/f/a/big.c", input=b"x" * 5000)
    fs.spate("put", "spate:/f/a/b/small.C", input=b"x")
    fs.spate("touch", "spate:/f/empty.h")
    fs.spate("touch", "-d", "2020-01-01", "spate:/f/a/big.c")
    fs.spate("ln", "-s", "empty.h", "spate:/f/link")

    def found(*tests):
        return sorted(path.removeprefix("spate:/f") for path in lines(fs, "find", "spate:/f", *tests))
    equal(found(), ["", "/a", "/a/b", "/a/b/small.C", "/a/big.c", "/empty.h", "/link"], "find")
    equal(found("-name", "*.c"), ["/a/big.c"], "-name")
    equal(found("-iname", "*.c"), ["/a/b/small.C", "/a/big.c"], "-iname")
    equal(found("-type", "d"), ["", "/a", "/a/b"], "-type d")
    equal(found("-type", "l"), ["/link"], "-type l")
    equal(found("-type", "f", "-size", "+1k"), ["/a/big.c"], "-size")
    equal(found("-empty"), ["/empty.h"], "-empty")
    equal(found("-mtime", "+365"), ["/a/big.c"], "-mtime")
    equal(found("-type", "f", "!", "-mmin", "-60"), ["/a/big.c"], "! -mmin")
    equal(found("-newer", "spate:/f/a/big.c", "-name", "*.[cC]"), ["/a/b/small.C"], "-newer")
    equal(found("-maxdepth", "1"), ["", "/a", "/empty.h", "/link"], "-maxdepth")
    equal(found("-mindepth", "3"), ["/a/b/small.C"], "-mindepth")
    equal(fs.spate("find", "spate:/f", "-name", "e*", "-print0"), b"spate:/f/empty.h\0", "-print0")
    equal([e["path"] for e in json.loads(fs.spate("find", "spate:/f", "-name", "e*", "--json"))], ["spate:/f/empty.h"], "--json")
    says(ended(fs, 2, "find", "spate:/f", "-exec", "rm"), "-exec")
    says(ended(fs, 2, "find", "spate:/f", "-name"), "-name")
    says(ended(fs, 1, "find", "spate:/none"), "spate:/none")


def heads_and_tails(fs):
    text = b"".join(b"line %d\n" % i for i in range(1, 60001))
    fs.spate("put", "spate:/text", input=text)
    fs.spate("put", "spate:/unended", input=b"one\ntwo")
    fs.spate("put", "spate:/nothing", input=b"")
    equal(fs.spate("head", "-n", "3", "spate:/text"), b"line 1\nline 2\nline 3\n", "head -n 3")
    equal(fs.spate("tail", "-n", "2", "spate:/text"), b"line 59999\nline 60000\n", "tail -n 2")
    equal(len(fs.spate("head", "spate:/text").splitlines()), 10, "head")
    equal(fs.spate("head", "-n", "60000", "spate:/text"), text, "head of all lines")
    equal(fs.spate("tail", "-n", "60000", "spate:/text"), text, "tail of all lines")
    equal(fs.spate("tail", "-n", "59999", "spate:/text"), text[len(b"line 1\n"):], "tail of all lines but one")
    equal(fs.spate("head", "-c", "4", "spate:/text"), b"line", "head -c")
    equal(fs.spate("tail", "-c", "3", "spate:/unended"), b"two", "tail -c")
    equal(fs.spate("tail", "-n", "1", "spate:/unended"), b"two", "tail -n 1 of a line that does not end")
    equal(fs.spate("tail", "-n", "0", "spate:/text"), b"", "tail -n 0")
    equal(fs.spate("head", "-n", "0", "spate:/text"), b"", "head -n 0")
    equal(fs.spate("tail", "spate:/nothing"), b"", "tail of an empty file")
    says(fs.spate("head", "-n", "1", "spate:/text", "spate:/unended").decode(), "==> spate:/text <==\nline 1\n", "==> spate:/unended <==\none\n")
    says(ended(fs, 2, "head", "-n", "-1", "spate:/text"), "-1")

    # Data that is appended later is printed later.
    fs.spate("put", "spate:/log", input=b"first\n")
    following = subprocess.Popen([SPATE, "tail", "-f", "spate:/log"], env=fs.env, stdout=subprocess.PIPE)
    try:
        equal(following.stdout.readline(), b"first\n", "tail -f")
        fs.spate("put", "spate:/log", input=b"first\nsecond\n")
        equal(following.stdout.readline(), b"second\n", "tail -f of what came later")
    finally:
        following.terminate()
        following.wait(20)
        following.stdout.close()


def other_programs(fs):
    env = {"LD_PRELOAD": ""}
    says(fs.spate("run", "ls", "-l", "/spate/l", env=env).decode(), " a\n")
    says(fs.spate("run", "--at", "/here", "ls", "-l", "/here/l", env=env).decode(), " a\n")
    says(fs.spate("run", "--", "ls", "-l", "/spate/l", env=env).decode(), " a\n")
    ended(fs, 127, "run", "no-such-program-anywhere", env=env)
    ended(fs, 126, "run", "/etc", env=env)
    ended(fs, 3, "run", "sh", "-c", "exit 3", env=env)


def options_before_the_command(fs):
    """As with git, options that every command accepts may stand before the command's name, even for commands that parse
    their other words themselves."""
    env, here = {"XDG_STATE_HOME": fs.root + "/nothing", "LD_PRELOAD": ""}, ("--fs", fs.dir)
    equal(fs.spate(*here, "find", "spate:/f", "-type", "l", env=env), b"spate:/f/link\n", "--fs DIR find")
    equal(fs.spate("--fs=" + fs.dir, "-q", "find", "spate:/f", "-type", "l", env=env), b"spate:/f/link\n", "--fs=DIR -q find")
    equal([e["path"] for e in json.loads(fs.spate("--json", "find", "spate:/f", "-type", "l"))], ["spate:/f/link"], "--json find")
    says(fs.spate(*here, "run", "ls", "-l", "/spate/f", env=env).decode(), " empty.h\n")
    says(ended(fs, 2, *here, "fnd", "spate:/f"), "did you mean `spate find`?")
    says(fs.spate(*here, "help", "find", env=env).decode(), "-type")
    says(ended(fs, 2, "--fs"), "--fs")


def mistakes(fs):
    says(ended(fs, 2, "mont", "/tmp/x"), "did you mean `spate mount`?")
    says(ended(fs, 2, "help", "staus"), "did you mean `spate status`?")
    says(ended(fs, 2, "help", "foo"), "there is no command \"foo\"")
    says(ended(fs, 2, "ls", "include"), "`spate:/include`")
    says(ended(fs, 2, "ls", "/include"), "`spate:/include`")
    for value in ("0", "-1", "x"):
        says(ended(fs, 2, "up", "--dir", fs.root + "/new", "--io", value), "--io")
        says(ended(fs, 2, "stats", "--watch", value), "--watch")
    check(not os.path.exists(fs.root + "/new"), "a refused `up` has made a folder")
    # As in Lustre's lfs, -1 stands for all.
    fs.spate("setstripe", "-c", "-1", "spate:/wide")
    equal(len(json.loads(fs.spate("getstripe", "--json", "spate:/wide"))[0]["slots"]), fs.io, "setstripe -c -1")
    says(ended(fs, 1, "setstripe", "-c", "-2", "spate:/other"), "-2")


def copying(fs):
    """cp -R, -a, -v, -n, -u and --dry-run, in every direction. An interrupted copy goes on with -u."""
    tree = fs.root + "/tree"
    os.makedirs(tree + "/deep")
    for name, data in (("a", b"one"), ("deep/b", b"two"), ("deep/c", b"")):
        with open(tree + "/" + name, "wb") as f:
            f.write(data)
        os.utime(tree + "/" + name, ns=(10**18, 10**18 + 5))
    os.symlink("a", tree + "/link")

    def copied(*args):
        return sorted(lines(fs, "cp", "-v", *args))

    def files(source, target):
        return sorted("%s/%s -> %s/%s" % (source, n, target, n) for n in ("a", "deep/b", "deep/c"))

    def only_files(told):
        return [line for line in told if line.endswith(("/a", "/b", "/c"))]

    places = ((tree, "spate:/in"), ("spate:/in", "spate:/within"), ("spate:/within", fs.root + "/out"))
    for source, target in places:
        dry = sorted(lines(fs, "cp", "-R", "--dry-run", source, target))
        equal(only_files(dry), files(source, target), "cp --dry-run")
        there = os.path.exists(target) if target.startswith("/") else fs.run("stat", target).returncode == 0
        check(not there, "--dry-run has made " + target)
        equal(copied("-a", source, target), dry, "cp -a -v says what --dry-run has said")
    equal(os.stat(fs.root + "/out/deep/b").st_mtime_ns, 10**18 + 5, "the time of a copy")

    # Copies into an existing directory: `cp -r tree spate:/` makes spate:/tree.
    fs.spate("cp", "-r", tree, "spate:/")
    equal(only_files(copied("-ru", tree, "spate:/")), [], "cp -u of what is the same")
    equal(only_files(copied("-rn", tree, "spate:/")), [], "cp -n of what is there")
    equal(only_files(copied("-ru", "spate:/tree", fs.root + "/again")), files("spate:/tree", fs.root + "/again"), "cp -u of what is not there")
    os.mkdir(fs.root + "/kept")
    fs.spate("cp", "-r", "spate:/tree", fs.root + "/kept")
    equal(only_files(copied("-ru", "spate:/tree", fs.root + "/kept")), [], "cp -u out")
    fs.spate("mkdir", "spate:/kept")
    fs.spate("cp", "-r", "spate:/tree", "spate:/kept")
    equal(only_files(copied("-ru", "spate:/tree", "spate:/kept")), [], "cp -u within")

    # The state after an interruption: a file with part of its data, a missing file, and a file of another size.
    fs.spate("put", "spate:/tree/deep/b", input=b"tw\0")
    fs.spate("rm", "spate:/tree/deep/c")
    equal([line.split("/")[-1] for line in only_files(copied("-rn", tree, "spate:/"))], ["c"], "cp -n makes what is missing")
    equal(fs.spate("cat", "spate:/tree/deep/b"), b"tw\0", "cp -n has overwritten")
    equal([line.split("/")[-1] for line in only_files(copied("-r", "--update", tree, "spate:/"))], ["b"], "cp --update")
    equal(fs.spate("cat", "spate:/tree/deep/b"), b"two", "cp --update")
    # The interrupted first run made the destination itself.
    fs.spate("rm", "spate:/in/deep/c")
    equal([line.split("/")[-1] for line in only_files(copied("-ru", tree + "/.", "spate:/in"))], ["c"], "cp -u SOURCE/.")
    check(fs.run("stat", "spate:/in/tree").returncode == 1, "cp -u SOURCE/. has copied below the destination")
    same_tree(tree, fs.root + "/out")


def failures_as_json(fs):
    """A list gets a row for each failure. If nothing could be done, there is one object with the error."""
    for command in ("ls", "stat", "du", "getstripe"):
        done = fs.run(command, "--json", "spate:/none", "spate:/l/a")
        rows = json.loads(done.stdout)
        failed = [row for row in rows if "error" in row]
        check(done.returncode == 1 and len(rows) == 2, "%s --json: exit %d, %s" % (command, done.returncode, rows))
        equal([(row["path"], row["code"]) for row in failed], [("spate:/none", "not_found")], command + " --json")
    for command in (("rm", "spate:/none"), ("cat", "spate:/none"), ("mkdir", "spate:/l"), ("tree", "spate:/none")):
        done = fs.run(*command, "--json")
        told = json.loads(done.stdout)
        check(done.returncode == 1 and told["code"] in ("not_found", "exists") and command[-1] in (told.get("path", "") + told["error"]),
              "%s --json: exit %d, %s" % (command, done.returncode, told))
    done = fs.run("ls", "--json", "--fs", "/none", "spate:/")
    check("error" in json.loads(done.stdout), "without a file system: %r" % done.stdout)


def main():
    with Cluster(io=2) as fs:
        fs.up()
        listing(fs)
        space(fs)
        patterns(fs)
        attributes(fs)
        finding(fs)
        options_before_the_command(fs)
        heads_and_tails(fs)
        other_programs(fs)
        copying(fs)
        mistakes(fs)
        failures_as_json(fs)


main()
