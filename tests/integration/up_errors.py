#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate up`, `down` and spated when something is in the way: the message is clear, and no data is harmed."""
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading

from cluster import SPATE, SPATED, Cluster, alive, check, free_ports, wait_until

META, IO, OTHER = 1, 2, 3


def says(text, *parts):
    for part in parts:
        check(part in text, "%r is not in: %s" % (part, text))


def spated(fs, server, *args, env=None):
    """Runs spated, which must end by itself with a message. Returns the message."""
    done = subprocess.run([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(server), *args], env=dict(fs.env, **(env or {})),
                          stderr=subprocess.PIPE, timeout=30)
    said = done.stderr.decode()
    check(done.returncode == 1, "spated: exit %d: %s" % (done.returncode, said))
    return said


def read(path):
    with open(path, "r", encoding="utf-8") as stream:
        return stream.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def second_up(fs):
    before = fs.pids()
    out = fs.spate("up", "--dir", fs.dir).decode()
    says(out, "is running already (%d servers)" % (fs.io + 1))
    check(fs.pids() == before, "the second up has started servers")
    # Two `up` at once: only one of them starts the servers.
    fs.spate("down", "-q")
    both = [fs.start("up", "-q", "--dir", fs.dir) for _ in range(2)]
    for one in both:
        out, said = one.communicate(timeout=60)
        check(one.returncode == 0 and said == b"", "concurrent up: " + said.decode())
    fs.seen.update(fs.pids().values())
    fs.spate("status")


def pid_files(fs):
    # A stale pid file: the process is gone, and its number now belongs to another program.
    fs.kill(IO)
    sleeper = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    write(fs.dir + "/run/server-%d.pid" % IO, b"%d 1\n" % sleeper.pid)
    out = fs.spate("up", "--dir", fs.dir).decode()
    fs.seen.update(fs.pids().values())
    says(out, "server %d was not shut down" % IO)
    fs.kill(IO)
    write(fs.dir + "/run/server-%d.pid" % IO, b"%d 1\n" % sleeper.pid)
    fs.spate("down", "-q")
    check(alive(sleeper.pid), "down has killed another program")
    sleeper.kill()
    sleeper.wait()
    fs.up()
    # The pid file is lost, garbage or half written: the running servers are found and stopped.
    before = fs.pids()
    for garbage in (None, b"", b"nonsense", b"%d" % before[IO]):
        path = fs.dir + "/run/server-%d.pid" % IO
        os.unlink(path)
        if garbage is not None:
            write(path, garbage)
        fs.spate("up", "-q", "--dir", fs.dir)
        check(fs.pids() == before, "a running server was not recognised without its pid file")
    os.unlink(fs.dir + "/run/server-%d.pid" % IO)
    fs.spate("down", "-q", "--dir", fs.dir)
    check(not alive(before[IO]), "down leaves a server without a pid file running")


def started_by_hand(fs):
    """A server without a pid file is found by its address. `up` recognizes it, and `down` stops it."""
    fs.spate("down", "-q", "--dir", fs.dir)
    says(fs.fails("ls", "spate:/"), "is not running")
    status = fs.run("status")
    check(status.returncode == 1 and "is not running" in status.stderr, "status of what is down: " + status.stderr)
    servers = [subprocess.Popen([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(s)], env=fs.env, stderr=subprocess.DEVNULL)
               for s in range(1, fs.io + 2)]
    fs.seen.update(server.pid for server in servers)
    wait_until(lambda: fs.run("status").returncode == 0, "they serve")
    fs.spate("put", "spate:/by-hand", input=b"by hand")
    check(fs.spate("cat", "spate:/by-hand") == b"by hand", "servers without pid files cannot be used")
    fs.spate("rm", "spate:/by-hand")
    for server in servers:
        server.terminate()
        server.wait()
    says(fs.fails("ls", "spate:/"), "is not running")


def no_such_place(fs):
    for command in (["ls"], ["status"], ["down"]):
        said = fs.fails("--fs", "/nonexistent", *command)
        says(said, "/nonexistent", "spate.toml")
        check("is not running" not in said and "//" not in said, said)
    os.mkdir(fs.root + "/void")
    for command in (["ls"], ["down"]):
        says(fs.fails("--fs", fs.root + "/void", *command), fs.root + "/void/spate.toml")


def options_of_a_new_one(fs):
    """An existing file system refuses options that it cannot take on, and nothing is started."""
    fs.spate("down", "-q", "--dir", fs.dir)
    for option in (["--io", str(fs.io + 3)], ["--port", str(fs.port + 1000)], ["--trove", "pool"]):
        done = fs.run("up", "--dir", fs.dir, *option)
        check(done.returncode == 2, "up %s: exit %d" % (option, done.returncode))
        says(done.stderr, " ".join(option), "%d servers" % (fs.io + 1), fs.dir)
    check(fs.pids() == {}, "a refused up has started servers")
    fs.up()  # with the options of its creation


def down_again(fs):
    says(fs.spate("down", "--dir", fs.dir).decode(), "Nothing was running")
    fs.up()
    fs.kill(IO, META)
    says(fs.spate("down", "--dir", fs.dir).decode(), "server %d had ended by itself" % IO)
    fs.up()
    said = fs.spate("down", "--dir", fs.dir).decode()
    says(said, "Stopped 3 servers")
    check("by itself" not in said, said)
    says(fs.fails("down", "--dir", fs.root + "/nowhere"), fs.root + "/nowhere/spate.toml")
    says(fs.fails("ls", "spate:/"), "is not running", "spate up --dir " + fs.dir)


def down_with_a_broken_config(fs):
    fs.up()
    running = fs.pids().values()
    config = fs.dir + "/spate.toml"
    with open(config) as file:
        good = file.read()
    with open(config, "a") as file:
        file.write("no key\n")
    says(fs.fails("down", "--dir", fs.dir), config)
    check(not any(alive(p) for p in running), "down leaves servers running whose config cannot be read")
    with open(config, "w") as file:
        file.write(good)


def ports(fs):
    other = fs.root + "/other"
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", fs.port + 1))
        holder.listen()
        # A new file system: nothing is created.
        says(fs.fails("up", "--dir", other, "--io", "1", "--port", str(fs.port)), "port %d" % (fs.port + 1), "--port")
        check(not os.path.exists(other), "a failed up has made a folder")
        # An existing file system: no process is left running.
        says(fs.fails("up", "--dir", fs.dir), "127.0.0.1:%d" % (fs.port + 1), "server 2", "spate.toml")
        check(not any(alive(p) for p in fs.pids().values()), "a failed up leaves servers running")
        says(spated(fs, 2), "127.0.0.1:%d" % (fs.port + 1), "server 2", "in use")
    # The port belongs to another file system of ours.
    fs.up()
    says(fs.fails("up", "--dir", other, "--io", "1", "--port", str(fs.port)), "port %d" % fs.port)
    fs.spate("down", "-q")


def folders(fs):
    plain = fs.root + "/plain"
    write(plain, b"")
    says(fs.fails("up", "--dir", plain, "--port", str(fs.port)), plain, "is a file", "--dir")
    full = fs.root + "/full"
    os.mkdir(full)
    write(full + "/thesis.tex", b"")
    os.chmod(full, 0o755)
    says(fs.fails("up", "--dir", full, "--port", str(fs.port)), full, "thesis.tex", "--dir")
    check(os.listdir(full) == ["thesis.tex"] and os.stat(full).st_mode & 0o777 == 0o755, "up has changed a foreign folder")
    # The state that a killed `up` leaves before spate.toml exists.
    half = fs.root + "/half"
    os.makedirs(half + "/keys")
    os.makedirs(half + "/server-1")
    write(half + "/keys/client.key", b"half a key")
    write(half + "/server-1/unformatted", b"")
    fs.spate("up", "-q", "--dir", half, "--io", "1", "--port", str(fs.port))
    fs.spate("put", "spate:/x", input=b"x")
    fs.spate("down", "-q", "--dir", half)
    # Data without its spate.toml is never overwritten by a new file system.
    os.rename(half + "/spate.toml", fs.root + "/kept")
    says(fs.fails("up", "--dir", half), "spate.toml is gone", "--dir")
    os.rename(fs.root + "/kept", half + "/spate.toml")
    fs.spate("up", "-q", "--dir", half)
    check(fs.spate("cat", "spate:/x") == b"x", "data lost")
    fs.spate("down", "-q", "--dir", half)
    shutil.rmtree(half)


def without_permission(fs):
    """Runs as a user who may not write there."""
    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    if os.getuid() != 0:
        return
    os.chmod(fs.root, 0o755)
    readable = subprocess.run([SPATE, "--version"], preexec_fn=nobody, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if readable.returncode != 0:
        print("not tried: another user cannot run " + SPATE)
        return

    def fails(*args):
        done = subprocess.run([SPATE, *args], env=fs.env, preexec_fn=nobody, stderr=subprocess.PIPE, stdout=subprocess.PIPE, timeout=30)
        check(done.returncode == 1, "%s: exit %d" % (args, done.returncode))
        return done.stderr.decode()
    says(fails("up", "--dir", fs.root + "/notmine", "--port", str(fs.port)), fs.root + "/notmine", "permission denied")
    says(fails("up", "--dir", fs.dir), fs.dir, "another user's")
    # Everybody can find the file system; only its owner can read its key file.
    os.chmod(fs.dir, 0o755)
    os.chmod(fs.dir + "/spate.toml", 0o644)
    says(fails("--fs", fs.dir, "ls", "spate:/"), "keys/client.key", "ermission denied")
    os.chmod(fs.dir, 0o700)
    # A storage folder that the servers' user cannot write.
    mine = fs.root + "/nobodys"
    os.mkdir(mine)
    os.chown(mine, 65534, 65534)
    own = mine + "/fs"

    def runs(*args):
        done = subprocess.run([SPATE, *args, "-q", "--dir", own], env=fs.env, preexec_fn=nobody, stderr=subprocess.PIPE, timeout=60)
        check(done.returncode == 0, "%s: exit %d %s" % (args, done.returncode, done.stderr.decode()))
    runs("up", "--io", "1", "--port", str(free_ports(2)))
    runs("down")
    target = own + "/server-2/target-0"
    os.chown(target, 0, 0)
    os.chmod(target, 0o755)
    says(fails("up", "--dir", own), target, "ermission denied", "uid 65534", "chown")
    os.chmod(fs.root, 0o700)


def keys(fs):
    fs.up()
    key = fs.dir + "/keys/client.key"
    os.chmod(key, 0o644)
    says(fs.fails("ls", "spate:/"), key, "chmod 600")
    os.chmod(key, 0o600)
    right = open(key, "rb").read()
    write(key, b"0" * 64 + b"\n")
    says(fs.fails("ls", "spate:/"), "wrong client key", "server 1")
    write(key, b"short\n")
    says(fs.fails("ls", "spate:/"), key, "64 hex digits")
    os.unlink(key)
    says(fs.fails("ls", "spate:/"), key)
    write(key, right)
    os.chmod(key, 0o600)
    fs.spate("ls", "spate:/")
    fs.spate("down", "-q")


def configuration(fs):
    path = fs.dir + "/spate.toml"
    right = open(path, "rb").read()
    for there, wrong, parts in ((b'# sync = "100 ms"', b'synk = "1 s"', ["synk", 'mean "sync"']), (b'# deadline = "30 s"', b'deadline = "soon"', ["deadline"]),
                                (b"[client]", b"[cliend]", ["cliend"]), (b'roles = ["io"]', b'roles = ["oi"]', ["roles"]), (b"[network]", b"[network", [])):
        check(there in right, "the configuration of `up` has changed: " + there.decode())
        line = right[:right.index(there)].count(b"\n") + 1
        write(path, right.replace(there, wrong, 1))
        for said in (spated(fs, 2), fs.fails("up", "--dir", fs.dir)):
            says(said, "spate.toml:%d:" % line, *parts)
    write(path, right)
    says(spated(fs, 77), "there is no server 77")
    says(spated(fs, 2, env={"SPATE_META_SYNC": "never"}), "SPATE_META_SYNC")


def stores(fs):
    """The stores on disk differ from the configuration."""
    fs.up()
    fs.spate("put", "spate:/kept", input=b"k" * 3000000)
    fs.spate("down", "-q")
    a, b = fs.target(IO), fs.target(OTHER)

    # A newer format, damage, another target, another file system.
    identity = open(a + "/spate-target", "rb").read()
    for offset, value, parts in ((8, struct.pack("<I", 9), ["format 9", "newer version"]), (0, b"XXXX", ["not an identity file"]),
                                 (24, b"Z", ["checksum"])):
        write(a + "/spate-target", identity[:offset] + value + identity[offset + len(value):])
        says(fs.fails("up", "--dir", fs.dir), a, "server %d did not start" % IO, *parts)
    write(a + "/spate-target", identity)
    check(not any(alive(p) for p in fs.pids().values()), "a failed up leaves servers running")

    # The folders of two servers are swapped: data, or records.
    for part in ("target-0", "keyval"):
        one, two = ["%s/server-%d/%s" % (fs.dir, s, part) for s in (IO, OTHER)]
        def swap():
            os.rename(one, one + ".x")
            os.rename(two, one)
            os.rename(one + ".x", two)
        swap()
        said = fs.fails("up", "--dir", fs.dir)
        says(said, "server %d did not start" % IO, "server %d did not start" % OTHER, "belongs to another file system", "/server-%d/%s" % (IO, part))
        swap()

    # A folder that was emptied, or whose disk is not mounted, is never taken for a new one.
    for part in ("server-%d/target-0" % IO, "server-%d/keyval" % IO, "server-%d/keyval" % META, "server-%d" % IO):
        kept = fs.root + "/kept"
        os.rename(fs.dir + "/" + part, kept)
        for _ in range(2):
            says(fs.fails("up", "--dir", fs.dir), "did not start", "Is its disk mounted", "--format", fs.dir + "/" + part)
            if not os.path.exists(fs.dir + "/" + part):
                os.mkdir(fs.dir + "/" + part)
        check(os.listdir(fs.dir + "/" + part) == [], "a refused start has written into an empty folder")
        os.rmdir(fs.dir + "/" + part)
        os.rename(kept, fs.dir + "/" + part)

    # None of these attempts has harmed anything.
    fs.up()
    check(fs.spate("cat", "spate:/kept") == b"k" * 3000000, "data lost")
    # The store is given up on purpose.
    fs.spate("down", "-q")
    shutil.rmtree(a)
    for attempt in ("first", "again"):  # creates the missing store, and ends
        made = subprocess.run([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(IO), "--format"], env=fs.env, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(made.returncode == 0 and "server %d can be started" % IO in made.stdout, "--format, %s: %s" % (attempt, made))
        check(os.path.exists(a + "/spate-target"), "no target was made")
    fs.up()
    fs.spate("down", "-q")


with Cluster(io=2) as fs:
    fs.up()
    second_up(fs)
    pid_files(fs)
    down_again(fs)
    down_with_a_broken_config(fs)
    ports(fs)
    folders(fs)
    fs.up()
    fs.spate("down", "-q")
    without_permission(fs)
    no_such_place(fs)
    options_of_a_new_one(fs)
    started_by_hand(fs)
    keys(fs)
    configuration(fs)
    stores(fs)
