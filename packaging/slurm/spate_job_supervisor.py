# SPDX-License-Identifier: Apache-2.0
"""The process that stays after `spate-job up` and holds the nodes' processes by their standard inputs."""
import json
import os
import secrets
import select
import shutil
import signal
import sys
import time
import zlib

from spate_job_common import JobError, heard, identity, launch, read_lines, stop, tell_all, write_file

READY_SECONDS = 120
FIRST_PORT, PORTS = 20000, 12000  # below the range of outgoing connections


def make_order(job, hosts, args, attempt):
    """Returns what the nodes need: the configuration, the keys, and which servers each node runs. Server 1 is the meta
    server and runs on the first node. The ports are computed from the job's number; each attempt uses other ports."""
    first = FIRST_PORT + (zlib.crc32(job.encode()) + attempt * 1009) % (PORTS - len(hosts) - 1)
    lines = ["[fs]", 'name = "job-%s"' % job, 'id = "%s"' % secrets.token_hex(8), 'client_key_file = "client.key"', 'server_key_file = "server.key"']
    servers = {}
    for number, host in enumerate(hosts, 2):
        mine = [(1, "meta", 'keyval = "@FOLDER@/meta"')] if number == 2 else []
        mine.append((number, "io", 'storage = ["@FOLDER@/data-%d"]' % number))
        for server, role, store in mine:
            url = "tcp://%s:%d" % (args.address.replace("{host}", host), first + server - 1)
            lines += ["[[servers]]", "id = %d" % server, 'urls = ["%s"]' % url, 'roles = ["%s"]' % role, store]
        servers[host] = [server for server, _, _ in mine]
    return {"job": job, "toml": "\n".join(lines) + "\n", "client_key": secrets.token_hex(32), "server_key": secrets.token_hex(32),
            "servers": servers, "base": args.dir, "mount": args.mount, "mount_options": args.mount_options}


class JobSupervisor:
    """Holds the nodes' processes: start(), wait() for states, keep(), end(), all in one thread. `watched` has the
    descriptors that become readable when the supervisor must end."""

    def __init__(self, control, folder, watched):
        self.launcher, self.hosts, self.folder, self.watched = control["launcher"], control["hosts"], folder, watched
        self.nodes = []
        self.open = []  # processes that may still write lines
        self.states = {host: ("", "") for host in self.hosts}

    def start(self, order):
        self.nodes = launch(self.launcher, self.hosts, "node")
        self.open = list(self.nodes)
        tell_all(self.nodes, json.dumps(order))

    def wait(self, state):
        """Waits until all nodes are in this state."""
        end = time.monotonic() + READY_SECONDS
        while any(now != state for now, _ in self.states.values()):
            wrong = [(host, why) for host, (now, why) in self.states.items() if now in ("failed", "taken", "gone")]
            if wrong:
                raise JobError("on %s: %s" % wrong[0])
            if time.monotonic() > end:
                raise JobError("after %d s these nodes were not ready: %s" % (READY_SECONDS, ", ".join(h for h, s in self.states.items() if s[0] != state)))
            if self.poll(0.5):
                raise JobError("it was told to end")

    def poll(self, seconds):
        """Reads the nodes' lines. Returns True if one of `watched` is readable."""
        ready, _, _ = select.select([process.stdout for process in self.open] + self.watched, [], [], seconds)
        for process in list(self.open):
            if process.stdout not in ready:
                continue
            more, lines = read_lines(process)
            for line in lines:
                self.take(line)
            if not more:
                self.open.remove(process)
                for host in process.hosts:
                    if self.states[host][0] not in ("failed", "taken"):
                        self.states[host] = ("gone", "its processes have ended")
        return any(one in ready for one in self.watched)

    def take(self, line):
        told = heard(line)
        if told is None or told[0] not in self.states:
            print(line, file=sys.stderr, flush=True)
        elif told[1] == "lost":  # shown by `spate job status`; the file system goes on without that server
            print("on %s: %s" % (told[0], told[2]), file=sys.stderr, flush=True)
            with open(self.folder / "lost", "a", encoding="utf-8") as file:
                file.write("on %s: %s\n" % (told[0], told[2]))
        elif self.states[told[0]][0] not in ("failed", "taken"):  # report the first reason only
            self.states[told[0]] = told[1:]

    def keep(self):
        """Runs until it must end or no node is left."""
        while self.open and not self.poll(60):
            pass

    def end(self):
        stop(self.nodes)


def close_others(kept):
    """Closes inherited descriptors. The caller of `up` may wait for the end of a pipe, which this process would
    otherwise hold open for the whole job."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number > 2 and number not in kept:
            try:
                os.close(number)
            except OSError:
                pass  # the descriptor that listed the folder


def become_supervisor(order, control, folder, report, watched):
    """Runs in the child of `up` and never returns. Writes "up", or the reason of a failure, into `report`. `watched`
    becomes readable when the process `up` ends."""
    os.setsid()
    told = os.pipe()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, lambda *_: os.write(told[1], b"x"))
    close_others({*told, report, *watched})
    supervisor = JobSupervisor(control, folder, [told[0], *watched])
    answer = ""
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number, source in ((0, os.open(os.devnull, os.O_RDWR)), (1, log), (2, log)):
            os.dup2(source, number)
        write_file(folder / "control.json", json.dumps(dict(control, supervisor=identity(os.getpid()))))
        supervisor.start(order)
        supervisor.wait("ready")
        tell_all(supervisor.nodes, "mount")
        supervisor.wait("up")
        os.write(report, b"up\n")
        os.close(report)
        del supervisor.watched[-1]  # `up` may end now
        supervisor.keep()
    except Exception as error:  # report every error to the user, and free the nodes
        taken = any(now == "taken" for now, _ in supervisor.states.values())
        answer = "%s %s\n" % ("taken" if taken else "failed", error)
    finally:
        supervisor.end()
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.write(report, answer.encode())
        except OSError:
            pass  # nobody reads the report any more
        os._exit(1 if answer else 0)
