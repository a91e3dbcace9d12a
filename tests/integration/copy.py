#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate cp` and related commands after failures and onto existing files: what they leave behind, how they continue,
what they print."""
import json
import os
import pty
import re
import signal
import stat
import subprocess
import threading

from cluster import SPATE, Cluster, check, wait_until

MIB = 1 << 20
OLD = 978307200  # 2001-01-01
VICTIM = 3


def local(fs, name, data=b"", mode=0o644, time=None):
    path = os.path.join(fs.root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)
    if time is not None:
        os.utime(path, (time, time))
    return path


def of(fs, path):
    """Returns what `spate stat` prints, as a dictionary."""
    at = json.loads(fs.spate("stat", "--json", path))
    return at[0] if isinstance(at, list) else at


def mode(fs, path):
    return int(str(of(fs, path)["mode"]), 8)


def says(fs, *words, cmd, **more):
    """Runs a command that must fail with a message that holds each of `words`."""
    said = fs.fails(*cmd, **more)
    for word in words:
        check(word in said, "%s: no %r in %r" % (" ".join(cmd), word, said))
    return said


def failed_copy_looks_like_none(fs):
    r5 = local(fs, "r5", os.urandom(5 * MIB), time=OLD)
    tree = fs.root + "/many"
    for i in range(100):
        local(fs, "many/f%02d" % i, b"x" * 70000)
    fs.spate("cp", r5, "spate:/whole")
    fs.kill(VICTIM)
    says(fs, "spate:/x", "server %d" % VICTIM, cmd=("--set", "client.deadline=600ms", "cp", r5, "spate:/x"))
    says(fs, "server %d" % VICTIM, cmd=("--set", "client.deadline=600ms", "cp", "spate:/whole", "spate:/x2"))
    out = local(fs, "out", b"before")
    says(fs, "spate:/whole", "server %d" % VICTIM, cmd=("--set", "client.deadline=600ms", "cp", "spate:/whole", out))
    # The copy of each file of the tree fails for the same reason: the message appears once.
    said = says(fs, "nothing more is copied", cmd=("--set", "client.deadline=600ms", "cp", "-r", tree, "spate:/many"))
    check(len(said.splitlines()) == 1, "a dead server is told of again and again: " + said)
    fs.up()
    for name in ("spate:/x", "spate:/x2"):
        done = fs.run("stat", "--json", name)
        check(done.returncode != 0 or of(fs, name)["mtime_ns"] != OLD * 10**9, name + " has the time of the file that it is no copy of")
    check(os.stat(out).st_mtime != OLD, "the local file has the time of the file that it is no copy of")
    check(of(fs, "spate:/whole")["mtime_ns"] == OLD * 10**9, "times are not kept")
    fs.spate("cp", r5, "spate:/x")
    check(of(fs, "spate:/x")["mtime_ns"] == OLD * 10**9, "times are not kept by the second try")


def holes(fs):
    sparse = os.path.join(fs.root, "sparse")
    data = os.urandom(MIB)
    with open(sparse, "wb") as f:
        f.seek(3 << 30)
        f.write(data)
        f.truncate(1 << 40)
    back = sparse + ".back"
    for source, target in ((sparse, "spate:/sparse"), ("spate:/sparse", "spate:/sparse2"), ("spate:/sparse2", back)):
        fs.spate("cp", source, target, timeout=20)
        if target == back:
            st = os.stat(back)
            size, allocated = st.st_size, st.st_blocks * 512
        else:
            st = of(fs, target)
            size, allocated = st["size"], st["allocated"]
        check(size == 1 << 40, "%s has %d bytes" % (target, size))
        check(MIB <= allocated < 2 * MIB, "%s takes %d bytes" % (target, allocated))
    with open(back, "rb") as f:
        f.seek(3 << 30)
        check(f.read(MIB + 4096) == data + bytes(4096), "the data are not where they were")
    # A file that is one hole; a small one; one with zeros between data.
    for name, size in (("hole", 64 << 30), ("small", 300 << 10)):
        with open(os.path.join(fs.root, name), "wb") as f:
            f.truncate(size)
        fs.spate("cp", os.path.join(fs.root, name), "spate:/" + name)
        fs.spate("cp", "spate:/" + name, "spate:/%s2" % name)
        for each in (name, name + "2"):
            st = of(fs, "spate:/" + each)
            check(st["size"] == size and st["allocated"] <= 64 << 10, "%s: %s" % (each, st))
    mixed = local(fs, "mixed", b"")
    with open(mixed, "r+b") as f:
        for i in range(40):
            f.seek(i * 100_000 + (i % 7) * 1000)
            f.write(os.urandom(3000 + 13 * i))
        f.truncate(5_000_000)
    fs.spate("cp", mixed, "spate:/mixed")
    fs.spate("cp", "spate:/mixed", "spate:/mixed2")
    with open(mixed, "rb") as f:
        content = f.read()
    for each in ("spate:/mixed", "spate:/mixed2"):
        check(fs.spate("cat", each) == content, each + " differs")


def dots_are_not_removed(fs):
    fs.spate("mkdir", "-p", "spate:/q/sub")
    fs.spate("put", "spate:/q/sub/f", input=b"1")
    fs.spate("ln", "-s", "/q", "spate:/link")
    for path in ("spate:/q/.", "spate:/q/sub/..", "spate:/q/sub/../", "spate:/q/./", "spate:/", "spate:", "spate:/q/.."):
        refusal = "the root directory cannot be removed" if path in ("spate:/", "spate:") else "are not removed"
        for options in (("-r",), ("-r", "-f")):
            says(fs, path, refusal, cmd=("rm", *options, path))
    says(fs, "spate:/link/", "not a directory", cmd=("rm", "-r", "spate:/link/"))
    check(fs.spate("cat", "spate:/q/sub/f") == b"1", "rm has removed what it must not")
    fs.spate("rm", "-r", "spate:/q/", "spate:/link")


def kinds_do_not_replace_each_other(fs):
    os.makedirs(fs.root + "/kinds/d/e")
    os.makedirs(fs.root + "/empty")
    local(fs, "kinds/d/e/f", b"f")
    empty = local(fs, "file", b"file")
    fs.spate("put", "spate:/file", input=b"file")
    fs.spate("mkdir", "spate:/kempty", "spate:/dir")
    # Type conflicts at the top: copies in, within and out.
    before = mode(fs, "spate:/file")
    says(fs, "cannot overwrite non-directory spate:/file with directory", cmd=("cp", "-r", fs.root + "/empty", "spate:/file"))
    says(fs, "cannot overwrite non-directory spate:/file with directory spate:/kempty", cmd=("cp", "-r", "spate:/kempty", "spate:/file"))
    says(fs, "cannot overwrite non-directory %s with directory spate:/kempty" % empty, cmd=("cp", "-r", "spate:/kempty", empty))
    check(mode(fs, "spate:/file") == before and stat.S_IMODE(os.stat(empty).st_mode) == 0o644, "the file's mode has been changed")
    # Type conflicts further down, with a link to a directory as well.
    fs.spate("cp", "-r", fs.root + "/kinds", "spate:/kinds")
    for maker in (lambda p: fs.spate("put", p, input=b""), lambda p: fs.spate("ln", "-s", "/dir", p)):
        fs.spate("mkdir", "-p", "spate:/t/d")
        maker("spate:/t/d/e")
        for source in (fs.root + "/kinds/.", "spate:/kinds/."):
            says(fs, "cannot overwrite non-directory spate:/t/", "/d/e with directory", cmd=("cp", "-r", source, "spate:/t"))
        fs.spate("rm", "-r", "spate:/t")
    for maker in (lambda p: open(p, "w").close(), lambda p: os.symlink(fs.root + "/empty", p)):
        os.makedirs(fs.root + "/t/d")
        maker(fs.root + "/t/d/e")
        says(fs, "cannot overwrite non-directory %s/t/" % fs.root, "/d/e with directory", cmd=("cp", "-r", "spate:/kinds/.", fs.root + "/t"))
        check(not os.listdir(fs.root + "/empty"), "written through a link to a directory")
        os.unlink(fs.root + "/t/d/e")
        os.removedirs(fs.root + "/t/d")
    # The opposite case.
    fs.spate("mkdir", "spate:/dir/file")
    says(fs, "cannot overwrite directory spate:/dir/file with non-directory", cmd=("cp", empty, "spate:/dir"))
    os.makedirs(fs.root + "/into/file")
    says(fs, "cannot overwrite directory %s/into/file" % fs.root, cmd=("cp", "spate:/file", fs.root + "/into"))


def existing_files_take_mode_and_owner(fs):
    private = local(fs, "private", b"secret", mode=0o600, time=OLD)
    fs.spate("cp", private, "spate:/private")
    for source, target in ((private, "spate:/open"), ("spate:/private", "spate:/open2")):
        fs.spate("put", target, input=b"anybody may read this")
        check(mode(fs, target) & 0o44 == 0o44, "put made a private file")
        fs.spate("cp", source, target)
        check(mode(fs, target) == 0o600, "%s keeps mode %o" % (target, mode(fs, target)))
        check(of(fs, target)["mtime_ns"] == OLD * 10**9 and fs.spate("cat", target) == b"secret", target + ": time or content")
    out = local(fs, "open", b"anybody")
    fs.spate("cp", "spate:/private", out)
    st = os.stat(out)
    check(stat.S_IMODE(st.st_mode) == 0o600 and st.st_mtime == OLD, "out: mode %o" % st.st_mode)
    # The mode is set before the data is copied: these copies fail half way, over a file that was larger.
    with open(fs.root + "/wide", "wb") as f:
        f.write(os.urandom(3 * MIB))
    os.chmod(fs.root + "/wide", 0o600)
    fs.spate("put", "spate:/half", input=b"anybody")
    fs.kill(VICTIM)
    fs.fails("--set", "client.deadline=600ms", "cp", fs.root + "/wide", "spate:/half")
    fs.up()
    check(mode(fs, "spate:/half") in (0o600, 0o644), "mode %o" % mode(fs, "spate:/half"))
    check(of(fs, "spate:/half")["size"] <= 7 or mode(fs, "spate:/half") == 0o600, "private data under a public mode")
    if os.getuid() == 0:
        os.chown(private, 1234, 4321)
        fs.spate("cp", private, "spate:/open")
        check((of(fs, "spate:/open")["uid"], of(fs, "spate:/open")["gid"]) == (1234, 4321), "the owner is not taken")


def what_cannot_be_copied_is_told_and_the_rest_copied(fs):
    tree = fs.root + "/some"
    for name in ("a", "m", "z"):
        local(fs, "some/" + name, name.encode())
        local(fs, "some/sub/" + name, name.encode())
    os.mkfifo(tree + "/b")
    os.mkfifo(tree + "/sub/b")
    said = fs.fails("cp", "-r", tree, "spate:/some")
    check(tree + "/b: neither" in said and tree + "/sub/b: neither" in said and len(said.splitlines()) == 2, said)
    for name in ("a", "m", "z", "sub/a", "sub/m", "sub/z"):
        check(fs.spate("cat", "spate:/some/" + name) == name[-1:].encode(), name + " is not there")
    # Several arguments: a missing one does not stop the others.
    fs.spate("mkdir", "spate:/several")
    says(fs, fs.root + "/gone: no such file", cmd=("cp", tree + "/a", fs.root + "/gone", tree + "/z", "spate:/several"))
    check(fs.spate("ls", "spate:/several").split() == [b"a", b"z"], "not all arguments were copied")
    # Copies out and within: a directory stands where a file has to go.
    for target in (fs.root + "/some2", "spate:/some2"):
        if target.startswith("spate:"):
            fs.spate("mkdir", "-p", target + "/some/m")
        else:
            os.makedirs(target + "/some/m")
        says(fs, "cannot overwrite directory %s/some/m" % target, cmd=("cp", "-r", "spate:/some", target))
    check(sorted(os.listdir(fs.root + "/some2/some")) == ["a", "m", "sub", "z"], "out: not all was copied")
    check(fs.spate("ls", "spate:/some2/some").split() == [b"a", b"m", b"sub", b"z"], "within: not all was copied")
    # Two arguments that are links stay links.
    one = local(fs, "h1", b"h")
    os.link(one, fs.root + "/h2")
    fs.spate("mkdir", "spate:/k", "spate:/k2")
    os.mkdir(fs.root + "/k3")
    fs.spate("cp", one, fs.root + "/h2", "spate:/k")
    fs.spate("cp", "spate:/k/h1", "spate:/k/h2", "spate:/k2")
    fs.spate("cp", "spate:/k2/h1", "spate:/k2/h2", fs.root + "/k3")
    check([of(fs, "spate:/%s/h1" % d)["links"] for d in ("k", "k2")] == [2, 2] and os.stat(fs.root + "/k3/h1").st_nlink == 2, "a hard link was lost")


def devices_and_pipes(fs):
    content = os.urandom(3 * MIB)
    fs.spate("put", "spate:/p", input=content)
    before = os.stat("/dev/null")
    fs.spate("cp", "spate:/p", "/dev/null")
    after = os.stat("/dev/null")
    check((before.st_mode, before.st_uid) == (after.st_mode, after.st_uid), "/dev/null has been changed")
    fifo = fs.root + "/fifo"
    os.mkfifo(fifo)
    read = []
    reader = threading.Thread(target=lambda: read.append(open(fifo, "rb").read()))
    reader.start()
    fs.spate("cp", "spate:/p", fifo)
    reader.join()
    check(read == [content], "through a fifo: other data")
    # It is not an error that the reader ends early.
    cat = fs.start("cat", "spate:/p", "spate:/p")
    check(cat.stdout.read(10) == content[:10], "cat")
    cat.stdout.close()
    said = cat.stderr.read()
    check(cat.wait(20) == 141 and said == b"", "cat | head: exit %d, said %r" % (cat.returncode, said))
    # put, get and cat use standard input or output for one file only and refuse these second arguments.
    for args in (("put", "spate:/a1", "spate:/b1"), ("get", "spate:/p", fs.root + "/x1"), ("cat", "spate:/p", "x1")):
        done = fs.run(*args, input=b"data")
        check(done.returncode == 2 and done.stdout == b"", "%s: exit %d" % (args, done.returncode))
    check(fs.run("stat", "spate:/b1").returncode == 1, "put has made an empty file")


def messages(fs):
    m = local(fs, "m", b"m")
    fs.spate("mkdir", "-p", "spate:/msg/d/sub")
    fs.spate("put", "spate:/msg/f", input=b"f")
    help_ = "`spate mkdir -p spate:/nodir"
    for target in ("spate:/nodir/", "spate:/nodir/x"):
        for source in (m, "spate:/msg/f"):
            said = says(fs, target, help_, cmd=("cp", source, target))
            check("spate: " + m not in said, said)
    says(fs, "spate:/nodir/f", help_, cmd=("mv", "spate:/msg/f", "spate:/nodir/f"))
    says(fs, "spate:/nodir/f", help_, cmd=("ln", "spate:/msg/f", "spate:/nodir/f"))
    says(fs, "spate:/nodir/f", help_, cmd=("ln", "-s", "f", "spate:/nodir/f"))
    says(fs, "spate:/nodir/f", help_, cmd=("put", "spate:/nodir/f"), input=b"")
    for cmd in (("ln", "spate:/nope", "spate:/l1"), ("mv", "spate:/nope", "spate:/l1"), ("cp", "spate:/nope", fs.root), ("cp", "spate:/nope", "spate:/l1")):
        said = says(fs, "spate:/nope: no such file", cmd=cmd)
        check("l1" not in said, said)
    says(fs, "spate:/msg/d cannot be moved into itself", cmd=("mv", "spate:/msg/d", "spate:/msg/d/sub"))
    says(fs, "spate:/msg/d: a directory has no hard links", "ln -s", cmd=("ln", "spate:/msg/d", "spate:/l1"))
    says(fs, "spate:/msg/f is no directory", cmd=("cp", m, m, "spate:/msg/f"))
    says(fs, fs.root + "/none/x", "mkdir -p " + fs.root + "/none", cmd=("cp", "spate:/msg/f", fs.root + "/none/x"))


def on_a_terminal(fs, *args):
    """Runs the command with a terminal as standard error, while a server is away for a moment. Returns the text on the
    terminal."""
    master, slave = pty.openpty()
    fs.kill(VICTIM, sig=signal.SIGSTOP)
    threading.Timer(0.5, lambda: fs.kill(VICTIM, sig=signal.SIGCONT)).start()
    process = subprocess.Popen([SPATE, *args], env=fs.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the last process has closed it
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    check(process.wait(20) == 0, "%s: exit %d: %r" % (args, process.returncode, shown))
    return shown.decode()


def a_bar_on_a_terminal(fs):
    big = fs.root + "/bars"
    for i in range(4):
        local(fs, "bars/f%d" % i, os.urandom(MIB) * 8)
    line = re.compile(r"\r\x1b\[K\[#* *\] \d+%  [0-9.]+( [KM]?i?B)?/32.0 MiB  [0-9.]+ [KMG]?i?B/s")
    for source, target in ((big, "spate:/bars"), ("spate:/bars", "spate:/bars2"), ("spate:/bars2", fs.root + "/bars3")):
        shown = on_a_terminal(fs, "cp", "-r", source, target)
        check("4 files, 32.0 MiB in " in shown.splitlines()[-1], "no sum at the end: %r" % shown)
        check(line.search(shown), "no bar: %r" % shown)
    silent = fs.start("cp", "-r", big, "spate:/bars4")
    out, said = silent.communicate(timeout=30)
    check((silent.returncode, out, said) == (0, b"", b""), "a bar where no terminal is: %r" % said)


def requests(fs, op):
    """Returns how many requests the io servers have answered."""
    start = "spate_rpc_request_ns_count{"
    lines = [line for server in ("2", "3", "4") for line in fs.spate("stats", server, "--prometheus").decode().splitlines()]
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(start) and 'op="%s"' % op in line)


def a_file_of_known_size_costs_one_read(fs):
    """Nobody writes the file, so the client need not ask any server for its end."""
    for i in range(20):
        local(fs, "known/f%d" % i, os.urandom(100 * i))
    fs.spate("cp", "-r", fs.root + "/known", "spate:/known")
    before = requests(fs, "read"), requests(fs, "datafile_stat")
    fs.spate("cp", "-r", "spate:/known", fs.root + "/known2")
    after = requests(fs, "read"), requests(fs, "datafile_stat")
    check(after == (before[0] + 19, before[1]), "reads and questions for sizes before and after: %s, %s" % (before, after))
    subprocess.run(["diff", "-r", fs.root + "/known", fs.root + "/known2"], check=True)


def a_small_file_that_is_read_is_not_closed(fs):
    """The open of a small file sets atime, and the server keeps no state to close. A large file is opened and closed."""
    def closes():
        lines = fs.spate("stats", "1", "--prometheus").decode().splitlines()
        return sum(int(line.split()[-1]) for line in lines if line.startswith("spate_rpc_request_ns_count{") and 'op="close"' in line)
    for name, size, closed in (("small", 1000, 0), ("large", 3 * MIB, 1)):
        data = os.urandom(size)
        fs.spate("cp", local(fs, "read/" + name, data, time=OLD), "spate:/" + name)
        before, asked = of(fs, "spate:/" + name), closes()
        fs.spate("cp", "spate:/" + name, fs.root + "/read/copy")
        check(closes() == asked + closed, "%s: %d closes" % (name, closes() - asked))
        after = of(fs, "spate:/" + name)
        check(after["atime_ns"] > before["atime_ns"] and after["ctime_ns"] == before["ctime_ns"], "%s: atime stays" % name)
        with open(fs.root + "/read/copy", "rb") as f:
            check(f.read() == data, name)


def a_tree_is_removed(fs):
    """Removes directories in directories, more names than fit in one request, and links. The targets of links stay."""
    for i in range(300):
        local(fs, "wood/%d/%d/f%d" % (i % 3, i % 7, i))
    os.symlink("../keep", fs.root + "/wood/0/link")
    os.makedirs(fs.root + "/wood/empty/deep/" + "/".join("d%d" % i for i in range(60)))
    fs.spate("mkdir", "spate:/keep")
    fs.spate("cp", "-r", fs.root + "/wood", "spate:/wood")
    fs.spate("rm", "-r", "spate:/wood")
    check(b"wood" not in fs.spate("ls", "spate:/"), "it is still there")
    fs.spate("rmdir", "spate:/keep")


def directories_wait_for_none_before_them(fs):
    """A directory whose file waits for a server holds up no other directory. Each directory has its mode and times in
    the end."""
    count = 20
    for i in range(count):
        local(fs, "few/d%02d/f" % i, b"%02d" % i * 1000)
        os.chmod(fs.root + "/few/d%02d" % i, 0o500 + i)
        os.utime(fs.root + "/few/d%02d" % i, (OLD + i, OLD + i))
    before = len(fs.datafiles(VICTIM))
    fs.spate("cp", "-r", fs.root + "/few", "spate:/few")
    waiting = len(fs.datafiles(VICTIM)) - before
    check(0 < waiting < count, "files on the server: %d" % waiting)
    copies = ["%s/few2/d%02d/f" % (fs.root, i) for i in range(count)]
    fs.kill(VICTIM, sig=signal.SIGSTOP)
    try:
        copying = fs.start("cp", "-r", "spate:/few", fs.root + "/few2")
        wait_until(lambda: sum(os.path.exists(f) and os.path.getsize(f) == 2000 for f in copies) == count - waiting,
                   "the files of the other servers")
        check(copying.poll() is None, "files were copied without their server")
    finally:
        fs.kill(VICTIM, sig=signal.SIGCONT)
    check(copying.wait(timeout=60) == 0, "the copy failed")
    for i in range(count):
        there = os.stat(fs.root + "/few2/d%02d" % i)
        check((stat.S_IMODE(there.st_mode), int(there.st_mtime)) == (0o500 + i, OLD + i), "d%02d: %s" % (i, there))
    subprocess.run(["diff", "-r", fs.root + "/few", fs.root + "/few2"], check=True)


with Cluster(io=3) as fs:
    fs.up()
    for each in (holes, directories_wait_for_none_before_them, a_file_of_known_size_costs_one_read,
                 a_small_file_that_is_read_is_not_closed, a_tree_is_removed, dots_are_not_removed, kinds_do_not_replace_each_other, what_cannot_be_copied_is_told_and_the_rest_copied, devices_and_pipes,
                 messages, a_bar_on_a_terminal, existing_files_take_mode_and_owner, failed_copy_looks_like_none):
        each(fs)
    fs.fsck()
