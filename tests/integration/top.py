#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate top` on a system with loads under different tags: who they are, what they ask, groups, orders, a terminal, and a client
that gives itself a wild name.
  top.py LIBSPATE.SO"""
import contextlib
import fcntl
import json
import os
import pty
import pwd
import re
import struct
import subprocess
import sys
import termios

from cluster import SANITIZED, SPATE, Cluster, check, skip

# Writes 1 MiB, or requests attributes, again and again until its standard input ends.
CLIENT = """
import ctypes, os, select, sys
library, fs, file = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_void_p()
def must(code):
    if code < 0: raise OSError(-code, os.strerror(-code))
must(library.spate_connect(ctypes.byref(fs), None, None))
must(library.spate_open(fs, sys.argv[3].encode(), os.O_CREAT | os.O_RDWR, 0o644, ctypes.byref(file)))
data, st = b"x" * (1 << 20), ctypes.create_string_buffer(256)
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    if sys.argv[2] == "write":
        must(library.spate_pwrite(file, data, ctypes.c_size_t(len(data)), ctypes.c_long(0)))
    else:
        must(library.spate_stat(fs, sys.argv[3].encode(), st))
must(library.spate_close(file))
must(library.spate_disconnect(fs))
"""
WILD = "\x1b]0;pwned\x07\n\udcff:" + "x" * 500
COLUMNS = 60


@contextlib.contextmanager
def client(fs, what, path, **env):
    clean = {name: value for name, value in fs.env.items() if name not in ("SLURM_JOB_ID", "SPATE_CLIENT_TAG")}
    process = subprocess.Popen([sys.executable, "-c", CLIENT, sys.argv[1], what, path], env=dict(clean, SPATE_FS=fs.dir, **env),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        check(process.stdout.readline() == b"ready\n", what + " does not begin")
        yield process.pid
        process.stdin.close()
        check(process.wait(60) == 0, "%s: exit %d" % (what, process.returncode))
    finally:
        process.kill()
        process.wait()


def table(fs, *args):
    return json.loads(fs.spate("top", "--once", "--json", "-i", "1", *args))


def who_does_what(fs, writer, looker):
    told = table(fs)
    check(told["servers"] == 3 and told["seconds"] > 0.5, told)
    by_job = {row["job"]: row for row in told["clients"]}
    red, batch = by_job["red"], by_job["4711"]
    check((red["pid"], batch["pid"]) == (str(writer), str(looker)), told)
    for row in (red, batch):
        check(row["host"] == os.uname().nodename and row["user"] == pwd.getpwuid(os.geteuid()).pw_name and row["program"], row)
    check(red["write"]["bytes_per_second"] >= 1 << 20 and red["write"]["requests_per_second"] > 0, red)
    check(red["write"]["mean_ns"] > 0 and red["read"]["bytes_per_second"] == 0, red)
    check(batch["look"]["requests_per_second"] > 0 and batch["write"]["requests_per_second"] == 0, batch)
    check(told["total"]["write"]["bytes_per_second"] >= red["write"]["bytes_per_second"], told)
    # Only io servers see a write, and only the meta server a request for attributes.
    at_meta = {row["job"]: row for row in table(fs, "1")["clients"]}
    check(at_meta["4711"]["look"]["requests_per_second"] > 0, at_meta)
    check("red" not in at_meta or at_meta["red"]["write"]["requests_per_second"] == 0, at_meta)


def views(fs):
    check(table(fs, "-s", "bytes")["clients"][0]["job"] == "red", "the writer is not first")
    check(table(fs, "-s", "bytes", "-k", "1")["clients"][1:] == [], "more rows than asked for")
    jobs = {row["job"] for row in table(fs, "-g", "job")["clients"]}
    check({"red", "4711"} <= jobs, jobs)
    users = table(fs, "-g", "user")["clients"]
    check([row["user"] for row in users if row["user"]] == [pwd.getpwuid(os.geteuid()).pw_name] and users[0]["clients"] >= 2, users)
    for wrong in (["-i", "0"], ["-n", "0"], ["--once", "-n", "2"], ["-g", "nonsense"], ["-s", "nonsense"], ["99"]):
        done = fs.run("top", *wrong)
        check(done.returncode == 2 and done.stderr, "top %s: exit %d" % (wrong, done.returncode))


def files(fs):
    fs.spate("mkdir", "-p", "spate:/deep/er")
    with client(fs, "write", "/deep/er/busy\x1b[2Jfile", SPATE_CLIENT_TAG="blue"):
        told = table(fs, "-g", "file", "-s", "bytes")
        rows = {row["path"]: row for row in told["files"]}
        for path in ("/w", "/deep/er/busy\\x1b[2Jfile"):
            check(path in rows, "%s is not among %s" % (path, list(rows)))
            check(rows[path]["write"]["bytes_per_second"] >= 1 << 20 and rows[path]["look"]["requests_per_second"] == 0, rows[path])
        check("/l" not in rows, "a file that is only looked at has no load of data")
        text = fs.spate("top", "-g", "file", "-1", "-i", "1").decode()
        check("FILE" in text and "/w\n" in text and "\x1b" not in text, text)
        by_number = [row for row in table(fs, "-g", "file", "1")["files"]]
        check(by_number == [], "the meta server moves no data: %s" % by_number)


def wild_names(fs):
    with client(fs, "look", "/wild", SLURM_JOB_ID=WILD):
        text = fs.spate("top", "-1", "-i", "1").decode()
        check("]0;pwned\\x07\\x0a\\xff" in text, text)
        check(all(char == "\n" or char.isprintable() for char in text), repr(text))
        check(all(len(line) < 600 for line in text.splitlines()), "a name of any length is shown")
        check(any("pwned" in row["job"] and len(row["job"]) <= 256 for row in table(fs)["clients"]), "it is not in the JSON")


def in_a_terminal(fs):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen([SPATE, "top", "-n", "2", "-i", "1"], env=fs.env, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other side is closed
        while part := os.read(master, 65536):
            shown += part
    os.close(master)
    check(process.wait(60) == 0, process.stderr.read())
    screens = shown.decode().split("\x1b[H\x1b[2J")
    check(len(screens) == 3 and screens[0] == "", repr(shown))
    for screen in screens[1:]:
        lines = screen.replace("\r", "").splitlines()
        check("READ/s" in lines[1] and len(lines) > 3 and all(len(line) <= COLUMNS for line in lines), lines)


def a_server_that_is_gone(fs):
    fs.kill(3)
    done = fs.run("top", "--once", "--json", "-i", "1")
    told = [line for line in done.stderr.splitlines() if line.startswith("spate: server 3 ")]  # not those that say for how long it has waited
    check(done.returncode == 1 and len(told) == 1, "not told once: " + done.stderr)
    check(json.loads(done.stdout)["servers"] == 2, done.stdout)
    fs.up()


def without_the_client_key(fs):
    """A user's key is refused: once for each server, and no table of nothing follows."""
    key = fs.dir + "/user.key"
    fs.spate("key", "issue", "--uid", "1000", "--gid", "1000", "-o", key)
    done = subprocess.run([SPATE, "top"], env=dict(fs.env, SPATE_FS_CLIENT_KEY_FILE=key), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    check((done.returncode, done.stdout) == (1, ""), done)
    check(len(done.stderr.splitlines()) == 3 and done.stderr.count("only the operator") == 3, done.stderr)


def main():
    if SANITIZED:
        skip("Python cannot load a sanitized library")
    with Cluster(io=2) as fs:
        fs.up("--tcp-only")  # the servers see each read and write
        check(table(fs)["seconds"] > 0.5, "nothing is told where nobody asks anything")
        with client(fs, "write", "/w", SPATE_CLIENT_TAG="red") as writer, client(fs, "look", "/l", SLURM_JOB_ID="4711") as looker:
            who_does_what(fs, writer, looker)
            views(fs)
            files(fs)
            wild_names(fs)
            in_a_terminal(fs)
        a_server_that_is_gone(fs)
        without_the_client_key(fs)
        fs.fsck()


main()
