# SPDX-License-Identifier: Apache-2.0
"""What the parts of spate-job share: programs, folders, processes, and how a command reaches the nodes."""
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

HERE = pathlib.Path(__file__).absolute().parent  # not where a link leads: the programs are beside the link
PROGRAM = str(HERE / "spate-job")
# Before the words of a program that does not outlive the thread that starts it, also if that is killed.
TIED = ["setpriv", "--pdeathsig", "KILL", "--"]


class JobError(Exception):
    """Its text is one sentence for the user."""


def spate_program(name):
    """A program of the same build or package, else that of PATH."""
    beside = HERE.parents[2] / "bin" / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if not found:
        raise JobError("%s is not installed on %s" % (name, socket.gethostname()))
    return found


def run_spate(folder, *words):
    """`spate WORDS` on the file system of this folder. The completed process, with text in its streams."""
    return subprocess.run([spate_program("spate"), *words], env=dict(os.environ, SPATE_FS=str(folder)), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="surrogateescape", check=False)


def reason(done):
    """Why a run of `spate` has failed."""
    said = done.stderr.strip() or done.stdout.strip() or "it ended with %d" % done.returncode
    return " ".join(said.removeprefix("spate: ").split())


def state_folder(job):
    """Of the user, where `up` runs: the clients' configuration, and what `down` needs. `down` runs commands and ends processes that are named
    there, so it must not be another user's, as it can be below sudo."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~")
    try:
        found = os.stat(home)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
            raise JobError("%s is another user's, or everybody may write there: set HOME or XDG_STATE_HOME" % home)
    except FileNotFoundError:
        pass  # own_folder() makes it
    base = pathlib.Path(os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state"))
    return base / "spate" / "jobs" / job


def node_folder(base, job, host):
    """Of one node. Its name has the user, so that users do not meet in /tmp."""
    return os.path.join(base, "spate-job-%d-%s" % (os.geteuid(), job), host)


def usual_base(given):
    """The local disk of a node."""
    return os.path.abspath(given or os.environ.get("SLURM_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")


def own_folder(folder):
    """Makes it, for this user alone. A folder or link of somebody else is refused."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except FileExistsError:
        raise JobError("%s is no folder" % folder) from None
    if os.path.islink(folder) or os.lstat(folder).st_uid != os.geteuid():
        raise JobError("%s belongs to somebody else" % folder)
    os.chmod(folder, 0o700)


def is_kept(path, uid):
    """Whether this user and root alone decide what lies at this path, as far as its last step goes. True: nothing is there."""
    try:
        link, found = os.lstat(path), os.stat(path)
    except FileNotFoundError:
        return not os.path.islink(path)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, uid):
        return False
    return found.st_uid in (0, uid) and bool(found.st_mode & stat.S_ISVTX or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def keeps_folders(base, uid):
    """Whether nobody but this user and root can put something else in the place of a folder of this user there: neither in `base` nor in a
    folder on the way to it, nor where links on that way lead."""
    for path in (pathlib.Path(os.path.abspath(base)), pathlib.Path(os.path.realpath(base))):
        if not all(is_kept(step, uid) for step in (path, *path.parents)):
            return False
    return True


def own_folder_in(base, folder):
    """own_folder(), and none that others can exchange."""
    for step in (lambda: None, lambda: own_folder(folder)):
        step()
        if not keeps_folders(base, os.geteuid()):
            raise JobError("others can rename what lies in %s: --dir takes a folder of the user or of root, sticky as /tmp if others may write "
                           "there, in folders of that kind" % base)


def write_file(path, text):
    """Anew, for this user alone; complete or not there at all."""
    part = str(path) + ".part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def read_control(job):
    """What `up` has noted of the job; None: there is nothing."""
    try:
        with open(state_folder(job) / "control.json", encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        raise JobError("%s is damaged: remove it" % (state_folder(job) / "control.json")) from None


def start_time(pid):
    """Tells a process from a later one with the same number. None: there is none."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError):
        return None


def identity(pid):
    return [pid, start_time(pid)]


def alive(process):
    """Whether the process with this identity() runs."""
    return process[1] is not None and start_time(process[0]) == process[1]


def wait_for(condition, seconds):
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def words_at(launcher, group, mine):
    """The command by which the launcher starts the words `mine` on these hosts. srun executes its words as they are; other launchers are
    taken for what ssh is, which gives them to a shell."""
    if launcher == "local":
        return mine
    front = [part.replace("{host}", group[0]).replace("{hosts}", ",".join(group)).replace("{count}", str(len(group))) for part in shlex.split(launcher)]
    by_shell = os.path.basename(front[0]) != "srun"
    return front + [shlex.quote(part) if by_shell else part for part in mine]


def launch(launcher, hosts, word, each=False):
    """Starts `spate-job WORD` on all hosts: one process for each if the launcher has "{host}" or is "local", or with `each`; else one for
    all, whose standard input goes to all of them. Each gets `.hosts`."""
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
    """Writes a line to it. One that has ended is seen at its output."""
    try:
        process.stdin.write(words.encode() + b"\n")
        process.stdin.flush()
    except (OSError, ValueError):
        pass


def tell_all(processes, words):
    for process in processes:
        tell(process, words)


def stop(processes):
    """Ends them: the end of their input does so, and a signal if that is not enough."""
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
    """(whether there may be more, the complete lines that have come)."""
    data = os.read(process.stdout.fileno(), 65536)
    *whole, process.rest = (process.rest + data).split(b"\n")
    return data != b"", [line.decode(errors="replace") for line in whole]


def say(host, state, why=""):
    """A node tells the one that has launched it."""
    print(("spate-job %s %s %s" % (host, state, " ".join(str(why).split()))).rstrip(), flush=True)


def heard(line):
    """(host, state, why) of a line of say(); None: it is a word of the launcher."""
    match = re.fullmatch(r"spate-job (\S+) (\w+) ?(.*)", line)
    return match.groups() if match else None


def read_order():
    """The first line of standard input, a JSON object. Nothing follows it before this process has said something."""
    parts = []
    while not parts or not parts[-1].endswith(b"\n"):
        parts.append(os.read(0, 1 << 20))
        if not parts[-1]:
            raise JobError("spate-job runs this by itself, on the nodes")
    return json.loads(b"".join(parts))


def own_name(given, known):
    """The name of this node among those of the job."""
    for name in (given, os.environ.get("SLURMD_NODENAME"), socket.gethostname(), socket.gethostname().split(".")[0]):
        if name in known:
            return name
    raise JobError("%s is none of the job's nodes" % socket.gethostname())
