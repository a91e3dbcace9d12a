# SPDX-License-Identifier: Apache-2.0
"""Code that the experiments on the data paths share: an io server whose storage lies in given folders, passes over a
file by one path, and bare probes of the same work."""
import contextlib
import json
import mmap
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import priority  # noqa: E402 (after the path)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def read_through_cache(file):
    """Fills the page cache from the file before a run. A virtual machine returns memory that was unused for a while to
    its host, and touching it again costs more than reading it from a disk. Without this the pass after a run that
    bypassed the page cache would pay that cost. Touching as much other memory does not help: the page cache takes
    larger pieces, which lie elsewhere."""
    with open(file, "rb", buffering=0) as f:
        room = mmap.mmap(-1, MIB)
        while f.readinto(room):
            pass


def busy_seconds(pid):
    """Returns the processor seconds of all threads so far, including those of io_uring."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError):
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                total += int(f.read().split()[0])
    return total / 1e9


def places(options):
    """Returns the folders for storage: {"disk": folders, "memory": folders}, limited by --only."""
    disks = os.environ.get("SPATE_BENCH_DISK", options.bin).split(":")
    both = {"disk": disks, "memory": ["/dev/shm"]}
    return {name: at for name, at in both.items() if options.only in (None, name)}


def forget(folders):
    """Drops all files below these folders from the page cache."""
    for folder in folders:
        for at, _, names in os.walk(folder):
            for name in names:
                fd = os.open(os.path.join(at, name), os.O_RDWR)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


class Server:
    """One meta server and one io server. Storage folder i lies in parents[i % n]. There are `folders` storage folders,
    and a file is striped over them by `strip` bytes. env: additional configuration of servers and clients."""

    def __init__(self, options, parents, folders=1, strip=None, env=None):
        self.options, self.strip = options, strip
        self.roots = [tempfile.mkdtemp(prefix="spate-paths-", dir=parent) for parent in parents]
        self.root = self.roots[0]
        self.dir = os.path.join(self.root, "fs")
        self.storage = [os.path.join(self.roots[i % len(parents)], "target-%d" % i) for i in range(folders)]
        self.env = dict(os.environ, XDG_STATE_HOME=os.path.join(self.root, "state"), SPATE_FLOW_BYPASS="write",
                        SPATE_CLIENT_BYPASS="write", **(env or {}))
        self.env.pop("SPATE_FS", None)
        self.pids = []

    def spate(self, *args):
        subprocess.run([os.path.join(self.options.bin, "spate"), "--quiet", *args], env=self.env, check=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        up = ["up", "--dir", self.dir, "--io", "1", "--port", str(self.options.port)]
        self.spate(*up, "--tcp-only")
        self.spate("down", "--dir", self.dir)
        with open(self.dir + "/spate.toml") as f:
            text = f.read()
        text, changed = re.subn(r'storage = \["[^"]*/server-2/target-0"\]', "storage = " + json.dumps(self.storage), text)
        if changed != 1:
            raise SystemExit("spate.toml has another shape than this bench knows")
        if self.strip:
            text = text.replace('# strip_bytes = "1 MiB"', "strip_bytes = %d" % self.strip)
        numbers = iter(range(9))
        shm = re.sub(r'urls = \["(tcp://[^"]*)"\]', lambda m: 'urls = ["shm://%s/s%d", "%s"]' % (self.root, next(numbers), m.group(1)), text)
        for name, one in (("spate.toml", shm), ("tcp.toml", text)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(one)
        self.format()
        self.spate(*up)
        for server in (1, 2):
            with open(self.dir + "/run/server-%d.pid" % server) as f:
                self.pids.append(int(f.read().split()[0]))
            priority(self.pids[-1])
        self.pid = self.pids[1]

    def format(self):
        """Makes the new storage folders. The io server makes them only with --format."""
        made = subprocess.run([os.path.join(self.options.bin, "spated"), "--config", self.dir + "/tcp.toml", "--server", "2", "--format"],
                              env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            raise SystemExit("spated --format: " + made.stdout)

    def __exit__(self, *unused):
        if os.path.exists(self.dir + "/spate.toml"):
            subprocess.run([os.path.join(self.options.bin, "spate"), "--quiet", "down", "--force", "--dir", self.dir], env=self.env, check=False)
        for root in self.roots:
            shutil.rmtree(root, ignore_errors=True)

    def pin(self, core):
        """Binds all threads of both servers to these processors."""
        for pid in self.pids:
            for task in os.listdir("/proc/%d/task" % pid):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(task), {core})

    def datafiles(self):
        """Returns the datafiles by size, the largest last."""
        found = [os.path.join(at, name) for folder in self.storage for at, _, names in os.walk(folder + "/d") for name in names]
        return sorted(found, key=os.path.getsize)

    def empty_cache(self):
        for file in self.datafiles():
            read_through_cache(file)
        forget(folder + "/d" for folder in self.storage)

    def client(self, path, network=None, core=None, **words):
        """Starts a paths_client over `shm` or `tcp` and returns it when it is ready to begin."""
        network = network or ("shm" if path == "bypass" else "tcp")
        config = os.path.join(self.dir, "spate.toml" if network == "shm" else "tcp.toml")
        pinned = [] if core is None else ["taskset", "-c", str(core)]
        client = subprocess.Popen([*pinned, os.path.join(self.options.bin, "paths_client"), config, "/f", "path=" + path,
                                   *("%s=%s" % item for item in words.items())], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if client.stdout.readline().strip() != "go":
            client.wait()
            raise SystemExit("paths_client %s %s failed" % (path, words))
        return client

    def finish(self, client, path):
        """Starts the client's work and returns its result with the server's processor seconds for it."""
        before = busy_seconds(self.pid)
        say(client)
        told = json.loads(client.stdout.readline() or "{}")
        told["server_cpu"] = busy_seconds(self.pid) - before
        say(client)
        if client.wait() != 0:
            raise SystemExit("paths_client failed")
        if path == "bypass" and told["bypassed"] < told["bytes"]:
            raise SystemExit("not all of it went past the server")
        return told

    def run(self, path, cold=False, **words):
        """Makes one pass. Returns GB/s, latencies, processor seconds a GiB of client and server, and the load of each,
        in % of one processor. `cold`: reads from the disk. The cache is emptied when the client is ready, since a host
        may take free memory back before the client has started."""
        client = self.client(path, **words)
        try:
            if cold:
                self.empty_cache()
            told = self.finish(client, path)
        finally:
            if client.poll() is None:
                client.kill()
                client.wait()
        return figures(told, told["cpu"], told["server_cpu"])


def say(client):
    with contextlib.suppress(BrokenPipeError):
        client.stdin.write("\n")
        client.stdin.flush()


def figures(told, client, server):
    gib = told["bytes"] / GIB
    row = {"gb_s": told["bytes"] / told["seconds"] / 1e9, "client": client / gib, "server": server / gib,
           "client_percent": 100 * client / told["seconds"], "server_percent": 100 * server / told["seconds"]}
    row.update((key, told[key]) for key in ("mean_us", "p50_us", "p99_us", "max_us", "jitter_us") if key in told)
    return row


def median(rows):
    rows = [row for row in rows if row]
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]} if rows else None


def probe_local(files, work, request, size, direct=False):
    """pread or pwrite of the same files with one thread for each file. `size` is the total in bytes."""
    share = size // len(files) // request * request
    used = []

    def one(file):
        fd = os.open(file, os.O_RDWR | (os.O_DIRECT if direct else 0))
        buffer = mmap.mmap(-1, request)  # aligned to a page
        begin = resource.getrusage(resource.RUSAGE_THREAD)
        for offset in range(0, share, request):
            os.preadv(fd, [buffer], offset) if work == "read" else os.pwritev(fd, [buffer], offset)
        end = resource.getrusage(resource.RUSAGE_THREAD)
        os.close(fd)
        used.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)

    threads = [threading.Thread(target=one, args=(file,)) for file in files]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(used) < len(files):
        return None  # the file system has no O_DIRECT
    return figures({"bytes": share * len(files), "seconds": time.perf_counter() - begin}, sum(used), 0)


def probe_send(options, file, how, request):
    """Reads and sends the file by paths_probe. `how`: pread (through the page cache) or direct (past it, by io_uring)."""
    told = json.loads(subprocess.run([os.path.join(options.bin, "paths_probe"), file, str(request), str(options.depth), how],
                                     stdout=subprocess.PIPE, check=True).stdout)
    return figures(told, 0, told["cpu"])


def probe_sendfile(files, request, size):
    """Sends the files in turns by sendfile over one TCP connection, into one buffer of a forked process at the other
    end."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        drain(socket.create_connection(listener.getsockname()), request)
        os._exit(0)
    connection, _ = listener.accept()
    listener.close()
    fds = [os.open(file, os.O_RDONLY) for file in files]
    before, begin = time.thread_time(), time.perf_counter()
    for number in range(size // request):
        left, offset = request, number // len(fds) * request
        while left:
            n = os.sendfile(connection.fileno(), fds[number % len(fds)], offset, left)
            if n == 0:
                raise SystemExit("a datafile is too short")
            left, offset = left - n, offset + n
    server = time.thread_time() - before
    connection.shutdown(socket.SHUT_WR)
    receiver = float(connection.recv(64))
    seconds = time.perf_counter() - begin
    connection.close()
    os.waitpid(child, 0)
    for fd in fds:
        os.close(fd)
    return figures({"bytes": size // request * request, "seconds": seconds}, receiver, server)


def drain(peer, request):
    buffer, begin = mmap.mmap(-1, request), time.process_time()  # aligned to a page, like all buffers here
    while peer.recv_into(buffer) > 0:
        pass
    peer.send(b"%.6f" % (time.process_time() - begin))
