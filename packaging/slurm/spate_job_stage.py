# SPDX-License-Identifier: Apache-2.0
"""Copies a tree in or out by all nodes at once. `spate cp -u` leaves out what an earlier, interrupted run has copied; each file's
checksum is compared with its source's."""
import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time

from spate_job_common import JobError, heard, launch, node_folder, own_name, read_lines, read_order, reason, run_spate, say, \
    spate_program, stop, tell, tied

BATCH_FILES, BATCH_BYTES = 200, 60000  # the limits of one command line
LARGE = "+64M"


def join(root, name):
    return root.rstrip("/") + "/" + name if name else root


def folder_of(name):
    return name.rpartition("/")[0]


def in_batches(words):
    """Splits the list into parts that fit on a command line."""
    batch, size = [], 0
    for word in words:
        if batch and (len(batch) == BATCH_FILES or size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(word)
        size += len(word)
    if batch:
        yield batch


def list_local(root):
    """Returns (folders, files) below a local folder. Names are relative to it; each file is [name, whether it is a
    regular file], large files first."""
    folders, files = [], []

    def fail(error):
        raise JobError("%s cannot be read: %s" % (error.filename, error.strerror))
    for at, below, names in os.walk(root, onerror=fail):
        rel = os.path.relpath(at, root)
        links = [name for name in below if os.path.islink(os.path.join(at, name))]
        folders.append("" if rel == "." else rel)
        for name in names + links:
            found = os.lstat(os.path.join(at, name))
            files.append((found.st_size, os.path.normpath(os.path.join(rel, name)), stat.S_ISREG(found.st_mode)))
    files.sort(key=lambda file: -file[0])
    return folders, [[name, regular] for _, name, regular in files]


def list_spate(fs, root):
    """Like list_local, of a folder of the Spate file system."""
    def find(*tests):
        done = run_spate(fs, "find", root, *tests, "-print0")
        if done.returncode != 0:
            raise JobError(reason(done))
        return [name.removeprefix(root.rstrip("/")).lstrip("/") for name in done.stdout.split("\0") if name]
    large = find("-type", "f", "-size", LARGE)
    big = set(large)
    files = large + [name for name in find("-type", "f") if name not in big]
    return find("-type", "d"), [[name, True] for name in files] + [[name, False] for name in find("!", "-type", "f", "!", "-type", "d")]


def open_folder(root, folder):
    """Opens a folder below `root` and returns its descriptor. Follows no link below `root`: anyone who may write there
    could use one to redirect the copy."""
    at = os.open(root, os.O_PATH | os.O_DIRECTORY)
    for step in filter(None, folder.split("/")):
        above = at
        try:
            at = os.open(step, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        except NotADirectoryError:
            raise JobError("%s is in the way: it is no folder" % join(root, folder)) from None
        finally:
            os.close(above)
    return at


def make_folders(fs, target, folders):
    if not target.startswith("spate:"):
        os.makedirs(target, exist_ok=True)
        for folder in folders:
            make_local_folder(target, folder)
        return
    for batch in in_batches([join(target, folder) for folder in folders]):
        done = run_spate(fs, "mkdir", "-p", *batch)
        if done.returncode != 0:
            raise JobError(reason(done))


def make_local_folder(root, folder):
    """Creates a local folder. Its parent must exist."""
    above = open_folder(root, folder_of(folder))
    try:
        if folder:
            os.mkdir(folder.rpartition("/")[2], dir_fd=above)
    except FileExistsError:
        os.close(open_folder(root, folder))
    finally:
        os.close(above)


def check_ends(fs, source, target):
    """Checks that source and target are on different file systems. Returns whether the source is a directory."""
    if source.startswith("spate:") == target.startswith("spate:"):
        raise JobError("exactly one of SOURCE and TARGET must begin with spate:")
    if not source.startswith("spate:"):
        if not os.path.lexists(source):
            raise JobError("there is no %s" % source)
        return os.path.isdir(source)
    done = run_spate(fs, "stat", "--json", source)
    if done.returncode != 0:
        raise JobError(reason(done))
    told = json.loads(done.stdout)
    return (told[0] if isinstance(told, list) else told)["type"] == "directory"


def stage(control, fs, source, target, movers):
    """Copies SOURCE so that it lies at TARGET afterwards. Returns the number of files."""
    source, target = [end if end.startswith("spate:") else os.path.abspath(end) for end in (source, target)]
    if not check_ends(fs, source, target):
        folders, files = [], [[os.path.basename(source), True]]
        parts = (source.rpartition("/")[0] or "/", target)
    else:
        folders, files = list_spate(fs, source) if source.startswith("spate:") else list_local(source)
        parts = (source, target)
    make_folders(fs, target, folders)
    hosts = control["hosts"]
    lanes = len(hosts) * movers
    order = {"job": control["job"], "base": control["base"], "source": parts[0], "target": parts[1], "whole": not folders}
    shares = {host: [files[at::lanes] for at in range(first, lanes, len(hosts))] for first, host in enumerate(hosts)}
    run_movers(control, order, shares)
    if folders:  # copies modes and times of directories, and files that came in the meantime
        done = run_spate(fs, "cp", "-r", "-u", "-q", join(source, "."), target)
        if done.returncode != 0:
            raise JobError(reason(done))
    return len(files)


def run_movers(control, order, shares):
    """Sends each node only the names of its own files, since there may be millions."""
    hosts = [host for host in control["hosts"] if any(shares[host])]
    launched = launch(control["launcher"], hosts, "move", each=True)
    waiting, running = set(hosts), list(launched)
    try:
        for process in launched:
            tell(process, json.dumps(dict(order, hosts=process.hosts, lanes=shares[process.hosts[0]])))
        while waiting and running:
            ready, _, _ = select.select([process.stdout for process in running], [], [])
            for process in [one for one in running if one.stdout in ready]:
                more, lines = read_lines(process)
                for line in lines:
                    take(line, waiting)
                if not more:
                    running.remove(process)
                    if waiting.intersection(process.hosts):
                        raise JobError("the movers on %s have ended; run it again, it goes on where it stopped" % ", ".join(sorted(waiting.intersection(process.hosts))))
    finally:
        stop(launched)


def take(line, waiting):
    told = heard(line)
    if told is None:
        print(line, file=sys.stderr, flush=True)
    elif told[1] == "done":
        waiting.discard(told[0])
    else:
        raise JobError("on %s: %s" % (told[0], told[2]))


class Mover:
    """The share of one node: one thread for each lane, and each runs one command at a time. stop() ends the commands."""

    def __init__(self, order, host):
        self.order = order
        self.environment = dict(os.environ, SPATE_FS=node_folder(order["base"], order["job"], host))
        self.lanes = order["lanes"]
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False
        self.wrong = []

    def run(self, *words, keep=()):
        """Runs `spate WORDS`, which inherits the descriptors `keep`. Returns its output."""
        with self.lock:
            if self.stopped:
                raise JobError("it was told to end")
            process = subprocess.Popen(tied([spate_program("spate"), *words]), env=self.environment, stdin=subprocess.DEVNULL, pass_fds=keep,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="surrogateescape")
            self.running.add(process)
        out, errors = process.communicate()
        with self.lock:
            self.running.discard(process)
        if process.returncode == -signal.SIGKILL:
            raise JobError("a command that copied was killed, as it is when the file system ends")
        if process.returncode != 0:
            raise JobError(reason(subprocess.CompletedProcess(words, process.returncode, out, errors)))
        return out

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.kill()

    def lane(self, files):
        try:
            by_folder = {}
            for name, regular in files:
                by_folder.setdefault(folder_of(name), []).append((name, regular))
            for folder, members in sorted(by_folder.items()):
                for batch in in_batches([name for name, _ in members]):
                    self.copy(folder, batch, {name for name, regular in members if regular})
        except (JobError, OSError) as error:
            self.wrong.append(error)
            self.stop()

    def copy(self, folder, names, regular):
        target = self.order["target"]
        if self.order["whole"]:
            self.copy_into(target, (), names, regular)
        elif target.startswith("spate:"):
            self.copy_into(join(target, folder) + "/", (), names, regular)
        else:
            into = open_folder(target, folder)
            held = "/proc/self/fd/%d/" % into
            try:
                self.copy_into(held, (into,), names, regular)
            except JobError as error:
                raise JobError(str(error).replace(held, join(target, folder) + "/")) from None
            finally:
                os.close(into)

    def copy_into(self, into, keep, names, regular):
        """Copies into a folder if `into` ends with "/", otherwise to that one file name. `keep`: the descriptor that
        `into` names."""
        source = self.order["source"]
        self.run("cp", "-r", "-u", "-q", *[join(source, name) for name in names], into, keep=keep)
        checked = [name for name in names if name in regular]
        for name in self.differing(checked, into, keep):
            self.run("cp", "-q", join(source, name), into, keep=keep)
            if self.differing([name], into, keep):
                raise JobError("%s differs from its source" % self.target_of(name))

    def target_of(self, name):
        return self.order["target"] if self.order["whole"] else join(self.order["target"], name)

    def differing(self, names, into, keep):
        if not names:
            return []
        copies = [into + name.rpartition("/")[2] if into.endswith("/") else into for name in names]
        sums = [self.sums([join(self.order["source"], name) for name in names], ()), self.sums(copies, keep)]
        return [name for at, name in enumerate(names) if sums[0][at] != sums[1][at]]

    def sums(self, paths, keep):
        told = json.loads(self.run("sum", "--json", "-a", "xxh3", *paths, keep=keep))
        if len(told) != len(paths):
            raise JobError("%d checksums for %d files, the first of them %s" % (len(told), len(paths), paths[0]))
        return [one["sum"] for one in told]


def run_mover(given):
    order = read_order()
    host = own_name(given, order["hosts"])
    mover = Mover(order, host)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))  # the commands that it started end with it
    threads = [threading.Thread(target=mover.lane, args=(files,)) for files in mover.lanes if files]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if select.select([0], [], [], 0)[0] and not os.read(0, 4096):
            mover.stop()
            break
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    if mover.wrong:
        say(host, "failed", mover.wrong[0])
        raise SystemExit(1)
    say(host, "done")
