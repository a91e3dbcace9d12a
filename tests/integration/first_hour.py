#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that newcomers make in their first hour: each is either accepted or refused with a sentence that says what
to do."""
import ctypes
import json
import os
import shlex
import shutil
import socket
import struct
import subprocess

from cluster import SPATE, Cluster, alive, check, free_ports

IN_MOVED_TO, IN_DELETE = 0x80, 0x200  # inotify(7)


def says(text, *words):
    for word in words:
        check(word in text, "%r is not in: %s" % (word, text))


def ended(fs, code, *args, **more):
    """Runs a command that must end with `code`. Returns its standard error."""
    done = fs.run(*args, **more)
    check(done.returncode == code, "spate %s: exit %d instead of %d, said: %s" % (" ".join(args), done.returncode, code, done.stderr))
    return done.stderr


def in_namespaces(fs, kinds, script):
    """Runs a shell script as root in new namespaces. Returns None if this user has no right to do so."""
    if os.geteuid() != 0 or subprocess.run(["unshare", *kinds, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return None
    env = dict(fs.env, spate=SPATE, root=fs.root)
    return subprocess.run(["unshare", *kinds, "sh", "-euc", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, text=True)


def settings_of_a_new_one(fs):
    """--set changes the spate.toml of a new file system, or is refused before anything is created."""
    other = fs.root + "/other"
    ports = ("--io", "1", "--port", str(free_ports(2)))
    for wrong, word, code in (("meta.snyc=commit", "\"sync\"", 2), ("meta.sync", "=", 2), ("meta.sync=sometimes", "sometimes", 1)):
        says(ended(fs, code, "up", "--dir", other, *ports, "--set", wrong), word)
    check(not os.path.exists(other), "a refused setting has left a folder")
    fs.spate("up", "-q", "--fs", other, *ports, "--set", "meta.sync=commit")
    with open(other + "/spate.toml") as f:
        says(f.read(), '\nsync = "commit"\n')
    says(ended(fs, 2, "up", "--fs", other, "--set", "meta.sync=100ms"), "--set", other + "/spate.toml")
    says(ended(fs, 2, "up", "--fs", other, "--dir", other), "--fs")
    fs.spate("down", "-q", "--dir", other)
    # SPATE_FS may also name the file of the file system.
    fs.spate("up", "-q", env={"SPATE_FS": other + "/spate.toml"})
    fs.spate("down", "-q", "--dir", other)
    shutil.rmtree(other)


def taken_ports(fs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if port + 1 < 65535:
            said = ended(fs, 1, "up", "--dir", fs.root + "/none", "--io", "1", "--port", str(port))
            says(said, "port %d" % port, "(pid %d)" % os.getpid(), "--port")
            check(not os.path.exists(fs.root + "/none"), "a refused port has left a folder")
    # Without --port `up` takes the next free ports. (In a network namespace, since the usual ports may be in use.)
    done = in_namespaces(fs, ["--net"], """
      ip link set lo up
      "$spate" up -q --dir "$root/a" --io 1
      "$spate" up -q --dir "$root/b" --io 1
      "$spate" --fs "$root/a" mkdir spate:/in-a
      "$spate" --fs "$root/b" ls spate:/ | wc -l
      "$spate" down -q --dir "$root/a"
      "$spate" down -q --dir "$root/b"
    """)
    check(done is None or (done.returncode == 0 and done.stdout == "0\n"), "two file systems on the usual ports: %s" % (done and done.stdout))


def file_system_of_the_machine(fs):
    done = in_namespaces(fs, ["--mount"], """
      mkdir "$root/etc" "$root/etc/upper" "$root/etc/work"
      mount -t overlay overlay -o "lowerdir=/etc,upperdir=$root/etc/upper,workdir=$root/etc/work" /etc || { echo skipped; exit 0; }
      mkdir -p /etc/spate
      cp "$root/fs/spate.toml" /etc/spate/
      XDG_STATE_HOME=$root/nowhere "$spate" ls spate:/
    """)
    check(done is None or done.stdout in ("skipped\n", "there\n"), "with /etc/spate/spate.toml: %s" % (done and done.stdout))


def servers_of_other_hosts(fs):
    """`spate up` did not make this spate.toml: its servers are started and stopped on their hosts."""
    etc = fs.root + "/client"
    os.mkdir(etc)
    shutil.copy(fs.dir + "/spate.toml", etc)
    fs.kill(3)
    said = ended(fs, 1, "--fs", etc, "status")
    says(said, "1 of 3 servers is down", "server 3, on 127.0.0.1", "`systemctl start spated@3`", "spated --config %s/spate.toml --server 3" % etc)
    check("spate up" not in said, "a client is told to make another file system: " + said)
    says(ended(fs, 1, "--fs", fs.dir, "status"), "1 of 3 servers is down", "`spate up --dir %s`" % fs.dir)
    says(ended(fs, 1, "--fs", etc, "down"), "`systemctl stop spated@1`", "`systemctl stop spated@3`")
    check(fs.run("--fs", etc, "ls", "spate:/").returncode == 0, "a refused down has stopped servers")
    fs.up()


def logs_and_restart(fs):
    said = fs.spate("logs", "--dir", fs.dir, "-n", "1000").decode()
    says(said, "server-1.log <==", "server-3.log <==", "serving server=2")
    check("server-3.log" not in fs.spate("logs", "--dir", fs.dir, "1", "2").decode(), "the log of a server that was not named")
    says(ended(fs, 1, "logs", "--dir", fs.dir, "9"), "spate status")
    before = fs.pids()
    shutil.rmtree(fs.dir + "/log")
    fs.spate("restart", "-q", "--dir", fs.dir)
    after = fs.pids()
    fs.seen.update(after.values())
    check(set(before.values()).isdisjoint(after.values()) and len(after) == 3, "restart: %s, then %s" % (before, after))
    check(fs.spate("ls", "spate:/") == b"there\n", "after a restart")
    says(fs.spate("logs", "--dir", fs.dir).decode(), "serving")


def known_at_each_moment(fs):
    """`spate up` replaces the file that names the current file system: a command that runs meanwhile never misses it."""
    other = fs.root + "/second"
    up = ("up", "-q", "--dir", other, "--io", "1", "--port", str(free_ports(2)))
    fs.spate(*up)
    state = fs.env["XDG_STATE_HOME"] + "/spate"
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    check(libc.inotify_add_watch(watch, state.encode(), IN_DELETE | IN_MOVED_TO) > 0, "inotify")
    fs.up()
    fs.spate(*up)
    fs.up()
    fs.spate("destroy", "-q", "-y", "--dir", other)
    changes = os.read(watch, 1 << 16)
    os.close(watch)
    names = []
    while changes:
        _, mask, _, size = struct.unpack_from("iIII", changes)
        names.append((mask, changes[16:16 + size].rstrip(b"\0").decode()))
        changes = changes[16 + size:]
    check(names.count((IN_MOVED_TO, "current")) == 3, "replaced: %s" % names)
    check(not [name for mask, name in names if mask & IN_DELETE], "removed: %s" % names)


def several_at_once(fs):
    """`spate up` of several file systems at the same time: each is known afterwards."""
    folders = ["%s/at-once-%d" % (fs.root, i) for i in range(4)]
    started = [fs.start("up", "-q", "--dir", folder, "--io", "1", "--port", str(free_ports(2))) for folder in folders]
    for one in started:
        check(one.wait(60) == 0, "up: %s" % one.stderr.read())
    listed = fs.spate("list").decode()
    says(listed, *(folder + "  up, 2 servers" for folder in folders))
    for folder in folders:
        fs.spate("destroy", "-q", "-y", "--dir", folder)


def lists_and_removes(fs):
    """A running file system is listed even if its folder is gone, and one command removes a file system."""
    gone, kept = fs.root + "/gone", fs.root + "/kept"
    for folder in (gone, kept):
        fs.spate("up", "-q", "--dir", folder, "--io", "1", "--port", str(free_ports(2)))
    says(fs.spate("list").decode(), fs.dir + "  up, 3 servers\n", kept + "  up, 2 servers\n")
    with open(gone + "/run/server-2.pid") as f:
        pid = int(f.read().split()[0])
    shutil.rmtree(gone)
    says(fs.spate("list").decode(), gone + "  removed, but 2 servers still run; `spate down --dir %s` ends them" % gone)
    listed = json.loads(fs.spate("list", "--json"))
    check([one["removed"] for one in listed["file_systems"] if one["config"] == gone + "/spate.toml"] == [True], "%s" % listed)
    says(fs.spate("down", "--dir", gone).decode(), "Stopped 2 servers", "gone")
    check(not alive(pid), "a server of a removed folder runs on")
    check(gone not in fs.spate("list").decode(), "a removed file system is still listed")
    says(ended(fs, 1, "down", "--dir", gone), gone + "/spate.toml")

    # A new file system in the same place does not hide the old servers.
    fs.spate("up", "-q", "--dir", gone, "--io", "1", "--port", str(free_ports(2)))
    shutil.rmtree(gone)
    fs.spate("up", "-q", "--dir", gone, "--io", "1", "--port", str(free_ports(2)))
    says(fs.spate("down", "--dir", gone).decode(), "Stopped 4 servers")

    says(ended(fs, 2, "destroy", "--dir", kept, stdin=subprocess.DEVNULL), "--yes")
    check(os.path.exists(kept + "/spate.toml"), "destroyed without a question")
    with open(kept + "/mine", "w") as f:
        f.write("not the file system's")
    says(fs.spate("destroy", "--yes", "--dir", kept).decode(), "Removed " + kept)
    check(os.listdir(kept) == ["mine"], "left: %s" % os.listdir(kept))
    says(ended(fs, 1, "destroy", "--yes", "--dir", kept), "there is no " + kept + "/spate.toml")
    etc = fs.root + "/client"
    says(ended(fs, 1, "destroy", "--yes", "--dir", etc), "has not made")
    says(fs.spate("destroy", "-y", "--dir", gone).decode(), "Removed %s.\nCommands use %s now.\n" % (gone, fs.dir))
    check(not os.path.exists(gone), "an empty folder is left")
    check({row["pid"] for row in json.loads(fs.spate("status", "--json"))} == set(fs.pids().values()), "another one is the default")


def starts_at_login(fs):
    """--enable writes a unit for the user and enables it. No service manager runs here; a program named systemctl
    records its arguments."""
    folder, programs = fs.root + "/at login", fs.root + "/bin"
    os.mkdir(programs)
    with open(programs + "/systemctl", "w") as f:
        f.write('#!/bin/sh\nprintf "%s\\n" "$*" >> "$HOME/told"\n')
    os.chmod(programs + "/systemctl", 0o755)
    env = {"PATH": programs + ":" + os.environ["PATH"], "XDG_CONFIG_HOME": ""}
    said = fs.spate("up", "--enable", "--dir", folder, "--io", "1", "--port", str(free_ports(2)), env=env).decode()
    unit = "spate" + folder.replace("-", "\\x2d").replace("/", "-").replace(" ", "\\x20") + ".service"
    says(said, unit, "loginctl enable-linger")
    with open(fs.root + "/told") as f:
        check(f.read() == "--user --quiet enable %s\n" % unit, "systemctl was told something else")
    path = "%s/.config/systemd/user/%s" % (fs.root, unit)
    with open(path) as f:
        lines = dict(line.strip().split("=", 1) for line in f if "=" in line)
    for line, up in (("ExecStop", False), ("ExecStart", True), ("ExecStop", False)):
        done = subprocess.run(shlex.split(lines[line]), env=fs.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(done.returncode == 0, "%s: %s" % (line, done.stdout))
        check((fs.run("--fs", folder, "status").returncode == 0) == up, line + " of the unit")
    fs.spate("destroy", "-q", "-y", "--dir", folder, env=env)
    check(not os.path.exists(path), "the unit is left")
    with open(fs.root + "/told") as f:
        says(f.read(), "--user --quiet disable " + unit)
    # The file system is up even if systemctl is missing or fails.
    with open(programs + "/systemctl", "w") as f:
        f.write("#!/bin/sh\nexit 1\n")
    says(ended(fs, 1, "up", "-q", "--enable", "--dir", fs.dir, env=env), "service manager")
    says(ended(fs, 1, "up", "-q", "--enable", "--dir", fs.dir, env={"PATH": fs.root + "/no programs", "XDG_CONFIG_HOME": ""}), "systemctl is not here")
    check(os.listdir(fs.root + "/.config/systemd/user") == [], "a unit is left that is not enabled")


def mounts(fs):
    """umount reports a path that is no mount, also to an ordinary user. getstripe accepts a path on a mount."""
    os.mkdir(fs.root + "/no mount")
    says(ended(fs, 1, "umount", fs.root + "/no mount"), "nothing is mounted at")
    if os.geteuid() != 0:
        return
    os.chmod(fs.root, 0o755)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", SPATE, "umount", fs.root + "/no mount"],
                          env=fs.env, stderr=subprocess.PIPE, text=True)
    check("Permission denied" in done.stderr or "cannot execute" in done.stderr or "nothing is mounted at" in done.stderr, done.stderr)
    fs.spate("setstripe", "-S", "64K", "-c", "1", "spate:/there")
    says(fs.spate("getstripe", "spate:/").decode(), "strips of 1.00 MiB (default), on all targets (default)")
    says(fs.spate("df", "--set", "fs.name=project").decode(), "\nfile system project ")
    fs.spate("mount", "-p", fs.root + "/mnt")
    try:
        says(fs.spate("mount", "--status", fs.root + "/mnt").decode(), "\nname spate\n")
        check(fs.root + "/mnt" in fs.spate("complete", "--", "umount", fs.root).decode().splitlines(), "umount is not offered the mount points")
        os.mkdir(fs.root + "/mnt/there/deeper")
        with open(fs.root + "/mnt/there/file", "w") as f:
            f.write("data")
        says(fs.spate("getstripe", fs.root + "/mnt/there").decode(), "spate:/there: ", "strips of 64.0 KiB, on 1 target,")
        says(fs.spate("getstripe", fs.root + "/mnt/there/file").decode(), "spate:/there/file: ", "strips of 64.0 KiB, 1 target")
    finally:
        fs.spate("umount", fs.root + "/mnt")


def main():
    with Cluster(io=2) as fs:
        fs.up()
        fs.spate("mkdir", "spate:/there")
        settings_of_a_new_one(fs)
        taken_ports(fs)
        file_system_of_the_machine(fs)
        servers_of_other_hosts(fs)
        logs_and_restart(fs)
        known_at_each_moment(fs)
        several_at_once(fs)
        lists_and_removes(fs)
        starts_at_login(fs)
        mounts(fs)


main()
