#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports of a local file and of a striped one: the conformance suite on both, contents by both front ends, hostile and dying
clients, sizes that change, socket activation."""
import array
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios

from common import BIN, SPATE, Cluster, Export, check, conformance, timed, wait_until
from nbd_wire import *  # noqa: F403
from paths import Client

KIB, MIB = 1 << 10, 1 << 20


def conforms(export, name=""):
    check(conformance.run(export.address, name, write=True, strict=True, out=open("conformance.log", "a")),
          "not conforming: " + open("conformance.log").read())


def contents(export, name, read_file):
    """Data written through the export is in the file at once."""
    data = os.urandom(3 * MIB + 77)
    with Connection(export.address) as c:
        c.structured_reply()
        c.go(name)
        c.write(54321, data)
        check(c.read(54321, len(data)) == data, "other bytes by the export")
        c.request(FLUSH)
    check(read_file()[54321:54321 + len(data)] == data, "other bytes in the file")


def described(export, what, name="", preferred=4 * KIB):
    """The export's description and preferred request size: for a striped file one strip, which lies on one server."""
    with Connection(export.address) as c:
        replies = c.option(OPT["INFO"], go_data(name, INFO_DESCRIPTION, INFO_NAME))
        infos = {struct.unpack(">H", data[:2])[0]: data[2:] for kind, data in replies if kind == INFO}
        check(infos[INFO_DESCRIPTION].decode() == what and infos[INFO_NAME].decode() == name, "it is %r" % infos)
        check(struct.unpack(">III", infos[INFO_BLOCK_SIZE]) == (1, preferred, 32 * MIB), "sizes of %r" % infos[INFO_BLOCK_SIZE])


def reconnects(export, name):
    """A thousand clients come and go in all ways. None of their state is left."""
    with Connection(export.address) as c:
        c.go(name).read(0, 512)
        before = export.descriptors()
    go = struct.pack(">IQII", 3, OPTION_MAGIC, OPT["GO"], len(go_data(name))) + go_data(name)
    read = struct.pack(">IHHQQI", REQUEST, 0, READ, 1, 0, 1 << 20)
    write = struct.pack(">IHHQQI", REQUEST, 0, WRITE, 1, 0, 1 << 20) + bytes(1000)
    ways = [b"", b"\0", go[:20], go, go + read[:20], go + read, go + read * 20, go + write, os.urandom(100), go + os.urandom(100)]
    for i in range(1000):
        with Connection(export.address, handshake=False) as c:
            c.socket.sendall(ways[i % len(ways)])
            if i % 3 == 0:  # a reset instead of an end
                c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: export.descriptors() <= before, "descriptors of clients that are gone")
    export.alive(name)
    check(export.memory_kib() < 600_000, "the server has %d KiB" % export.memory_kib())


def greedy(export, name):
    """A client that requests much and reads nothing makes the server hold little memory, whatever it requests."""
    before = export.memory_kib()
    with Connection(export.address) as c:
        c.go(name)
        c.socket.settimeout(1)
        try:
            for _ in range(40):
                c.socket.sendall(struct.pack(">IHHQQI", REQUEST, 0, READ, 1, 0, 32 * MIB) * 100)
        except OSError:
            pass
        export.alive(name)
        check(export.memory_kib() - before < 250_000, "the server holds %d KiB more" % (export.memory_kib() - before))
    wait_until(lambda: export.memory_kib() - before < 150_000, "memory of a client that is gone")


def other_size(export, name):
    with Connection(export.address) as other:
        return other.go(name).size


def waiting(c):
    """Returns how many bytes have not arrived at the other end yet."""
    count = array.array("i", [0])
    fcntl.ioctl(c.socket, termios.TIOCOUTQ, count)
    return count[0]


def resized(export, name, resize):
    """New clients see the new size. Others get an error for what is gone, cannot write it back, and go on."""
    with Connection(export.address) as c, Connection(export.address) as plain:
        c.structured_reply()
        c.go(name)
        plain.go(name)
        size = c.size
        resize(size + MIB)
        with Connection(export.address) as other:
            check(other.go(name).size == size + MIB, "the new size is not seen")
            other.write(size, b"new" * 1000)
        check(c.read(size, 3000) == b"new" * 1000, "who was there before does not reach what has been added")
        c.write(size + 4096, b"old" * 1000)
        check(c.request(READ, size + MIB - 1, 2).error != 0, "a read beyond the new end")
        resize(MIB)
        for length in (512, 65536, MIB):
            check(c.request(READ, size - length, length).error == EIO, "a read of what is gone did not fail")
        check(len(c.read(0, 4096)) == 4096, "what is left cannot be read")
        with Connection(export.address) as other:
            check(other.go(name).size == MIB, "the new size is not seen")
        check(plain.request(READ, size - 512, 512).error == EIO, "a small read of what is gone did not fail")
        try:  # without structured replies the connection may end instead
            check(plain.request(READ, size - MIB, MIB).error == EIO, "a large read of what is gone did not fail")
        except Closed:
            pass
        for length in (512, 65536, 300_000):
            check(c.request(WRITE, size - length, length, 0, b"x" * length).error == ENOSPC, "a write of %d bytes brings back what is gone" % length)
        for length in (100_000, 300_000, 2 * MIB):  # the last two: through a pipe, and without one
            resize(size)
            check(other_size(export, name) == size, "the new size is not seen")
            c.write(0, b"y" * 300_000)
            data = b"z" * length
            c.send(struct.pack(">IHHQQI", REQUEST, 0, WRITE, 4711, size - length, length) + data[:1000])
            wait_until(lambda: not waiting(c), "the payload's begin is not taken")
            resize(MIB)
            other_size(export, name)
            c.send(data[1000:])
            check(struct.unpack(">IIQ", c.receive(16)) == (SIMPLE, ENOSPC, 4711), "a write of %d bytes, begun before, brings back what is gone" % length)
            check(other_size(export, name) == MIB, "the file is longer again")
        for command in (TRIM, WRITE_ZEROES):
            check(c.request(command, MIB - 4096, 8192).error != 0, "command %d reaches what is gone" % command)
        with Connection(export.address) as other:
            check(other.go(name).size == MIB, "the file is longer again")
        resize(size)
        check(c.read(size - MIB, MIB) == bytes(MIB), "what was cut away is there again")


def local_file(fs):
    path = os.path.join(fs.root, "disk")
    with open(path, "wb") as f:
        f.truncate(64 * MIB)
    with Export("--port", "0", "d=" + path, path + "2" if os.path.exists(path + "2") else "other=" + path) as export:
        with timed("local: conformance"):
            conforms(export, "d")
        described(export, "file " + path, name="d")
        holes(export, "d")
        contents(export, "d", lambda: open(path, "rb").read())
        with timed("local: reconnects"):
            reconnects(export, "d")
        greedy(export, "d")
        resized(export, "d", lambda size: os.truncate(path, size))


def local_file_on_disk(fs):
    """A file whose pages may be missing: workers read it, and the bytes are the same."""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "spate-nbd-%d" % os.getpid())
    data = os.urandom(16 * MIB)
    try:
        with open(path, "wb") as f:
            f.write(data)
            os.fsync(f.fileno())
        with Export("--port", "0", "--read-only", path) as export, Connection(export.address) as c:
            c.structured_reply()
            c.go("")
            for length in (4096, 65536, 3 * MIB):
                with open(path, "rb") as f:
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                cookies = {c.send_request(READ, at, length): at for at in range(0, 8 * MIB, max(length, 256 * 1024))}
                while cookies:
                    reply = c.reply()
                    at = cookies.pop(reply.cookie)
                    check(b"".join(reply.data[o] for o in sorted(reply.data)) == data[at:at + length], "other bytes at %d" % at)
            check(c.request(WRITE, 0, 512, 0, bytes(512)).error == EPERM, "a read-only export was written")
        with Export("--port", "0", path) as export:
            with timed("disk: conformance"):
                conforms(export)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def holes(export, name):
    """Block status shows ranges that were never written and ranges that were punched."""
    with Connection(export.address) as c:
        c.structured_reply()
        c.option(OPT["SET_META_CONTEXT"], context_data(name, "base:allocation"))
        c.go(name)
        check(c.request(WRITE_ZEROES, 0, 32 * MIB).error == 0, "WRITE_ZEROES failed")
        c.write(8 * MIB, b"x" * (4 * MIB))
        map, at = [], 0
        while at < 32 * MIB:
            for size, flags in c.request(BLOCK_STATUS, at, 32 * MIB - at).extents:
                map += [flags] * (size // MIB)
                check(size % 4096 == 0, "an extent of %d bytes" % size)
                at += size
        check(map == [3] * 8 + [0] * 4 + [3] * 20, "the map is %r" % map)


def large_writes(fs):
    """Payloads go from the socket to the file through a pipe, in pieces of any size. Incomplete ones are dropped."""
    path = os.path.join(fs.root, "disk")
    for where in (["--port", "0"], ["--unix", os.path.join(fs.root, "socket")]):
        with Export(*where, path) as export, Connection(export.address) as c:
            c.structured_reply()
            c.go("")
            c.write(0, bytes(MIB))
            before = export.descriptors()
            for turn, piece in enumerate((MIB, 70000, 3001, 500)):
                data = os.urandom(MIB)
                c.write(0, data[::-1], FUA)  # each is followed by one that may come by a pipe
                c.send(struct.pack(">IHHQQI", REQUEST, 0, WRITE, 4711, 12345, MIB))
                for at in range(0, MIB, piece):
                    c.send(data[at:at + piece])
                check(struct.unpack(">IIQ", c.receive(16)) == (SIMPLE, 0, 4711), "the write failed")
                check(c.read(0, MIB + 12345) == data[::-1][:12345] + data, "other bytes, pieces of %d" % piece)
                check(c.read(12345, 4096) == data[:4096], "a small read behind it")
                with Connection(export.address) as gone:
                    gone.go("").write(0, data)
                    gone.send_request(WRITE, 0, MIB, 0, bytes(MIB - 1))
                check(c.read(0, MIB) == data, "half a write was carried out")
            check(c.request(WRITE, c.size - 1, 512 * 1024, 0, bytes(512 * 1024)).error == ENOSPC, "beyond the end")
            wait_until(lambda: export.descriptors() <= before + 4, "pipes of clients that are gone")


def several_threads(fs):
    """Data written on one connection is read on others, whichever threads serve them. All threads end together."""
    with Export("--port", "0", "--threads", "3", os.path.join(fs.root, "disk")) as export:
        all = [Connection(export.address).go("") for _ in range(12)]
        for i, one in enumerate(all):
            one.write(i * 4096, bytes([i + 1]) * 4096)
            check(one.request(FLUSH).error == 0, "FLUSH failed")
        for one in all:
            for i in range(len(all)):
                check(one.read(i * 4096, 4096) == bytes([i + 1]) * 4096, "other bytes")
        with open("/proc/%d/task/%d/children" % (export.process.pid, export.process.pid)) as children:
            check(children.read() == "", "a child")
    failing = subprocess.run([SPATE, "export", "--threads", "3", "--port", "0", "/nonexistent"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    check(failing.returncode == 1 and b"/nonexistent" in failing.stderr, "%r" % failing.stderr)


def striped_file(fs):
    fs.spate("setstripe", "-S", "64K", "spate:/")
    fs.spate("put", "spate:/disk", input=bytes(64 * MIB))
    path = os.path.join(fs.root, "socket")
    with Export("--unix", path, "spate:/disk", env=dict(fs.env, SPATE_FS=fs.dir)) as export:
        with timed("striped: conformance"):
            conforms(export)
        described(export, "striped file spate:/disk", preferred=64 * KIB)
        holes(export, "")
        contents(export, "", lambda: fs.spate("cat", "spate:/disk"))
        room(fs, export)
        client = Client(fs)
        client.ok("open /disk")
        resized(export, "", lambda size: client.ok("truncate %d" % size))
        client.ok("close")
        client.end()
        with timed("striped: reconnects"):
            reconnects(export, "")
        with timed("striped: greedy"):
            greedy(export, "")
    check(not os.path.exists(path), "the socket was left behind")
    failed = fs.run("export", "--unix", path, "a=spate:/disk", "b=spate:/nowhere", "--fs", fs.dir)
    check(failed.returncode == 1 and "spate:/nowhere" in failed.stderr, "%d %r" % (failed.returncode, failed.stderr))
    check(not os.path.exists(path), "the socket was left behind by one that could not serve")


def room(fs, export):
    """TRIM and WRITE_ZEROES free space on the servers."""
    def taken():
        return sum(os.stat(file).st_blocks * 512 for server in (2, 3) for file in fs.datafiles(server))
    with Connection(export.address) as c:
        c.go("").write(0, b"x" * (8 * MIB))
        had = taken()
        for command, at in ((TRIM, 0), (WRITE_ZEROES, 4 * MIB)):
            check(c.request(command, at, 4 * MIB).error == 0 and taken() <= had - 4 * MIB, "command %d leaves %d of %d bytes" % (command, taken(), had))
            had = taken()


def servers_die(fs):
    """Requests survive a restart of the servers, and no acknowledged data is lost with a process."""
    path = os.path.join(fs.root, "socket")
    with Export("--unix", path, "spate:/disk", env=dict(fs.env, SPATE_FS=fs.dir)) as export, Connection(path) as c:
        c.go("").write(0, b"a" * MIB)
        fs.kill(1, 2, 3)
        cookie = c.send_request(READ, 0, MIB)
        fs.up()
        check(c.reply(cookie).data[0] == b"a" * MIB, "other bytes after a restart")
        check(c.request(FLUSH).error == 0, "FLUSH failed")


def stopped_servers(fs):
    """Clients of a local file do not wait for the servers of another export. Nor does the list."""
    path, local = os.path.join(fs.root, "socket"), os.path.join(fs.root, "disk")
    with Export("--unix", path, "local=" + local, "striped=spate:/disk", env=dict(fs.env, SPATE_FS=fs.dir)) as export:
        fs.kill(1, 2, 3, sig=signal.SIGSTOP)
        try:
            with Connection(path) as waits, Connection(path) as c:
                waits.send_option(OPT["GO"], go_data("striped"))
                check(len([kind for kind, _ in c.option(OPT["LIST"]) if kind == SERVER]) == 2, "no list")
                c.go("local").read(0, 4096)
                answered = select.select([waits.socket], [], [], 0)[0]
                check(not answered, "the striped file's size was told without its servers")
                fs.kill(1, 2, 3, sig=signal.SIGCONT)
                waits.socket.settimeout(60)
                while waits.option_reply(OPT["GO"])[0] != ACK:
                    pass
                waits.read(0, 4096)
        finally:
            fs.kill(1, 2, 3, sig=signal.SIGCONT)


def writes_are_lost(fs):
    """As after a crash of the machine: every flush of clients connected then reports it, later clients' do not."""
    fs.spate("down", "-q", "--dir", fs.dir)
    with open(fs.dir + "/spate.toml") as f:
        text = f.read()
    with open(fs.dir + "/spate.toml", "w") as f:
        f.write(text.replace('roles = ["io"]', 'roles = ["io"]\ntrove = "mem"'))
    fs.up()
    fs.spate("put", "spate:/memory", input=bytes(8 * MIB))
    path = os.path.join(fs.root, "socket")
    with Export("--unix", path, "spate:/memory", env=dict(fs.env, SPATE_FS=fs.dir)) as export, Connection(path) as c, Connection(path) as other:
        c.go("").write(0, b"a" * MIB)
        check(c.request(FLUSH).error == 0, "FLUSH failed")
        other.go("").write(4 * MIB, b"b" * MIB)
        fs.kill(2, 3)
        fs.up()
        for _ in range(2):
            errors = c.request(FLUSH).error, other.request(FLUSH).error
            check(errors == (EIO, EIO), "nobody said that a write may be lost: %r" % (errors,))
        fs.spate("put", "spate:/memory", input=bytes(8 * MIB))
        with Connection(path) as later:
            later.go("").write(0, b"c" * 4096, FUA)
            check(later.request(FLUSH).error == 0, "FLUSH failed for a client that has lost nothing")


def activation(fs):
    """A service manager has opened the socket."""
    path = os.path.join(fs.root, "activated")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    script = 'exec 3<&%d; export LISTEN_FDS=1 LISTEN_PID=$$; exec "%s" export -r "%s"' % (listening.fileno(), SPATE, os.path.join(fs.root, "disk"))
    process = subprocess.Popen(["sh", "-c", script], pass_fds=[listening.fileno()], stdout=subprocess.PIPE)
    try:
        with Connection(path) as c:
            c.go("").read(0, 512)
    finally:
        process.terminate()
        process.communicate(timeout=20)
    # Sockets that were meant for another process, whose environment this process has inherited, are not used.
    other = script.replace("LISTEN_PID=$$", "LISTEN_PID=1").replace("export -r", "export --port 0 -r")
    process = subprocess.Popen(["sh", "-c", other], pass_fds=[listening.fileno()], stdout=subprocess.PIPE)
    try:
        url = process.stdout.readline().decode()
        check(url.startswith("nbd://127.0.0.1"), "it listens at " + url)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def ends_with_clients(fs):
    """SIGTERM with connected clients, one in the middle of a request: the export ends within its time limit."""
    with Export("--port", "0", os.path.join(fs.root, "disk")) as export:
        idle, half = Connection(export.address), Connection(export.address)
        idle.go("")
        half.go("").send_request(WRITE, 0, 4096, 0, bytes(100))
        export.process.terminate()
        check(export.process.wait(timeout=10) == 0, "exit code %d" % export.process.returncode)
        check(idle.closed() and half.closed(), "connections were left open")


def main():
    with Cluster(io=2) as fs:
        os.chdir(fs.root)
        for test in (local_file, local_file_on_disk, large_writes, several_threads, activation, ends_with_clients):
            with timed(test.__name__):
                test(fs)
        fs.up()
        with timed("striped_file"):
            striped_file(fs)
        for test in (stopped_servers, servers_die, writes_are_lost):
            with timed(test.__name__):
                test(fs)
        os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
