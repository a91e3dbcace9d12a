# SPDX-License-Identifier: Apache-2.0
"""Code that the parts of spate-job share: programs, folders, processes, and the start of commands on the nodes."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import stat
import subprocess
import time

HERE = pathlib.Path(__file__).absolute().parent  # links are not resolved: the programs lie beside the link
PROGRAM = str(HERE / "spate-job")
# The shell ends if the process that started it has ended before setpriv could ask for the signal.
TIED_SCRIPT = '[ "$PPID" = "$0" ] && exec "$@"'

REMOVED_TRIES = 100  # a folder that is still missing after so many tries is missing for another reason


class JobError(Exception):
    """An error for the user. Its text is one sentence."""


def spate_program(name):
    """The path of a program of the same build or package; the one found in PATH if there is none."""
    beside = HERE.parents[2] / "bin" / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if not found:
        raise JobError("%s is not installed on %s" % (name, socket.gethostname()))
    return found


def tied(words):
    """Returns the command that runs these words, and that ends when the thread that started it ends, even if that thread is
    killed."""
    return ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", TIED_SCRIPT, str(os.getpid()), *words]


def run_spate(folder, *words):
    """Runs `spate WORDS` on the file system of this folder. Returns the completed process, with its output as text. It ends
    with this thread: otherwise a copy would go on, into a file system that a later command reads or `down` ends."""
    return subprocess.run(tied([spate_program("spate"), *words]), env=dict(os.environ, SPATE_FS=str(folder)), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="surrogateescape", check=False)


def reason(done):
    """Returns why a run of `spate` failed."""
    said = done.stderr.strip() or done.stdout.strip() or "it ended with %d" % done.returncode
    return " ".join(said.removeprefix("spate: ").split())


def state_folder(job):
    """Returns the folder of the user on the node where `up` runs. The folder has the clients' configuration and the
    records that `down` needs. `down` runs commands and ends processes that these records name, so the folder must not
    belong to another user, as it can under sudo."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~")
    try:
        found = os.stat(home)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
            raise JobError("%s is another user's, or everybody may write there: set HOME or XDG_STATE_HOME" % home)
    except FileNotFoundError:
        pass  # own_folder() creates it
    base = pathlib.Path(os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state"))
    return base / "spate" / "jobs" / job


def node_folder(base, job, host):
    """Returns the folder of one node. The user is part of its name, so that folders of several users in /tmp do not
    collide."""
    return os.path.join(base, "spate-job-%d-%s" % (os.geteuid(), job), host)


def usual_base(given):
    """Returns the folder on a node's local disk: `given`, or else the one that the environment names."""
    return os.path.abspath(given or os.environ.get("SLURM_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")


def own_folder(folder):
    """Creates the folder, accessible to this user only. Refuses a folder or link of another user. Another node of the job
    may remove the folder while it is empty, also before this returns."""
    for _ in range(REMOVED_TRIES):
        with contextlib.suppress(FileNotFoundError):
            with contextlib.suppress(FileExistsError):
                os.makedirs(folder, mode=0o700)
            restrict_folder(folder)
            return
    raise JobError("%s cannot be created: it is removed again and again" % folder)


def restrict_folder(folder):
    """Makes a folder of this user accessible to this user only. Refuses a folder of another user, and a link."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError:
        raise JobError("%s is not a folder" % folder) from None
    except PermissionError:
        raise JobError("%s belongs to somebody else" % folder) from None
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise JobError("%s belongs to somebody else" % folder)
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def is_kept(path, uid):
    """Returns whether only this user and root can change what lies at this path. Checks the last step of the path only.
    Also True if nothing is there."""
    try:
        link, found = os.lstat(path), os.stat(path)
    except FileNotFoundError:
        return not os.path.islink(path)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, uid):
        return False
    return found.st_uid in (0, uid) and bool(found.st_mode & stat.S_ISVTX or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def keeps_folders(base, uid):
    """Returns whether nobody but this user and root can replace a folder of this user in `base`. Checks `base`, every
    folder on the way to it, and the targets of links on that way."""
    for path in (pathlib.Path(os.path.abspath(base)), pathlib.Path(os.path.realpath(base))):
        if not all(is_kept(step, uid) for step in (path, *path.parents)):
            return False
    return True


def own_folder_in(base, folder):
    """Like own_folder(), and refuses a folder that other users could replace."""
    for step in (lambda: None, lambda: own_folder(folder)):
        step()
        if not keeps_folders(base, os.geteuid()):
            raise JobError("others can rename what lies in %s: --dir takes a folder of the user or of root, sticky as /tmp if others may write "
                           "there, in folders of that kind" % base)


def write_file(path, text):
    """Replaces the file by a new one for this user only. After a failure the file is either complete or absent."""
    part = str(path) + ".part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def read_control(job):
    """Returns the record that `up` wrote about the job, or None if there is none."""
    try:
        with open(state_folder(job) / "control.json", encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        raise JobError("%s is damaged: remove it" % (state_folder(job) / "control.json")) from None


def start_time(pid):
    """Returns the start time of a process, which tells it from a later process with the same number. None: there is no
    such process."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError):
        return None


def identity(pid):
    return [pid, start_time(pid)]


def alive(process):
    """Returns whether the process with this identity() is running."""
    return process[1] is not None and start_time(process[0]) == process[1]


def wait_for(condition, seconds):
    """Waits for the condition. Returns whether it became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def words_at(launcher, group, mine):
    """Returns the command by which the launcher starts the words `mine` on these hosts. srun executes the words as they
    are. Every other launcher is assumed to pass them to a shell, as ssh does."""
    if launcher == "local":
        return mine
    front = [part.replace("{host}", group[0]).replace("{hosts}", ",".join(group)).replace("{count}", str(len(group))) for part in shlex.split(launcher)]
    by_shell = os.path.basename(front[0]) != "srun"
    return front + [shlex.quote(part) if by_shell else part for part in mine]


def launch(launcher, hosts, word, each=False):
    """Starts `spate-job WORD` on all hosts. There is one process for each host if the launcher contains "{host}", if it
    is "local", or with `each`; otherwise one process serves all hosts and passes its standard input to each of them.
    Each process gets an attribute `.hosts`."""
    started = []
    single = launcher == "local" or "{host}" in launcher
    for group in ([[host] for host in hosts] if single or each else [hosts]):
        mine = words_at(launcher, group, [PROGRAM, word] + (["--host", group[0]] if single else []))
        try:
            process = subprocess.Popen(mine, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            stop(started)
            raise JobError("the launcher %s cannot be started: %s" % (mine[0], error.strerror)) from None
        process.hosts = group
        process.rest = b""
        started.append(process)
    return started


def tell(process, words):
    """Writes a line to the process. If the process has ended, its output shows that later."""
    try:
        process.stdin.write(words.encode() + b"\n")
        process.stdin.flush()
    except (OSError, ValueError):
        pass


def tell_all(processes, words):
    for process in processes:
        tell(process, words)


def stop(processes):
    """Ends the processes: first by closing their standard input, then by a signal if they still run."""
    for process in processes:
        try:
            process.stdin.close()
        except OSError:
            pass
    for process in processes:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_lines(process):
    """Returns (whether more input may come, the complete lines that have come)."""
    data = os.read(process.stdout.fileno(), 65536)
    *whole, process.rest = (process.rest + data).split(b"\n")
    return data != b"", [line.decode(errors="replace") for line in whole]


def say(host, state, why=""):
    """Sends a line from a node to the process that launched it."""
    print(("spate-job %s %s %s" % (host, state, " ".join(str(why).split()))).rstrip(), flush=True)


def heard(line):
    """Returns (host, state, reason) of a line that say() wrote, or None if the launcher itself wrote the line."""
    match = re.fullmatch(r"spate-job (\S+) (\w+) ?(.*)", line)
    return match.groups() if match else None


def read_order():
    """Reads the first line of standard input, a JSON object. The sender writes no further line before this process has
    answered."""
    parts = []
    while not parts or not parts[-1].endswith(b"\n"):
        parts.append(os.read(0, 1 << 20))
        if not parts[-1]:
            raise JobError("spate-job runs this by itself, on the nodes")
    return json.loads(b"".join(parts))


def own_name(given, known):
    """Returns the name of this node among the nodes of the job."""
    for name in (given, os.environ.get("SLURMD_NODENAME"), socket.gethostname(), socket.gethostname().split(".")[0]):
        if name in known:
            return name
    raise JobError("%s is none of the job's nodes" % socket.gethostname())
