#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate up --meta 3`: three meta servers and three members of etcd on one machine. After a kill of any one process
clients go on, and `spate up` finds and starts the missing process.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH), or where Spate was built without libcurl."""
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

from cluster import BIN, SPATE, SPATED, Cluster, alive, check, free_ports, skip, wait_until

METAS, IOS, VOTES = 3, 1, 3
NAMER = os.path.join(BIN, "steady_namer")


def supervisors(fs):
    """Returns {name of the member: (pid of its supervisor, pid of etcd or 0)}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
            with open("/proc/%s/task/%s/children" % (pid, pid)) as f:
                children = f.read().split()
        except OSError:
            continue
        if words[1:3] == ["coord", "run"] and words[3] == fs.dir:
            found[words[4]] = (int(pid), int(children[0]) if children else 0)
    return found


def leads(fs):
    check("leads" in [part for part, _ in parts(fs).values()], "`spate up` ends before a meta server leads: %s" % parts(fs))


def up(fs, *more):
    fs.spate("up", "-q", "--dir", fs.dir, "--meta", str(METAS), "--io", str(IOS), "--port", str(fs.port), *more)
    fs.seen.update(pid for pair in supervisors(fs).values() for pid in pair if pid)
    leads(fs)


def rows(fs):
    return json.loads(fs.run("status", "--json").stdout or b"[]")


def parts(fs):
    return {row["server"]: (row["group"].split()[0], row["pid"]) for row in rows(fs) if "group" in row}


def is_whole(fs):
    return sorted(part for part, _ in parts(fs).values()) == ["backup", "backup", "leads"]


def gauge(fs, server, name):
    """A value of the metrics page of a server."""
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % (fs.metrics + server - 1), timeout=10) as page:
        return int(re.search(r"^spate_group_%s (\d+)$" % name, page.read().decode(), re.MULTILINE).group(1))


def whole(fs):
    wait_until(lambda: is_whole(fs), "one leads and two are backups", 60)


class Namer:
    """A client that creates names and reports each of them."""

    def __init__(self, fs, folder):
        self.fs, self.folder, self.log = fs, folder, fs.root + "/namer.out"
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen([NAMER, fs.dir + "/spate.toml", folder], env=fs.env, stdin=subprocess.PIPE, stdout=out)

    def lines(self):
        with open(self.log) as f:
            return [line.split() for line in f.read().split("\n")[:-1]]

    def goes_on(self):
        before = len(self.lines())
        wait_until(lambda: len(self.lines()) > before + 20 or self.child.poll() is not None, "changes go on", 60)
        check(self.child.poll() is None, "the client has ended")

    def end(self):
        self.child.stdin.close()
        check(self.child.wait(timeout=60) == 0, "the client failed")
        made = [line[0] for line in self.lines()[:-1]]
        there = self.fs.spate("ls", "spate:/" + self.folder).decode().split()
        check(sorted(there) == sorted(made), "acknowledged and there differ: %s" % sorted(set(there) ^ set(made))[:10])


def voter_is_shown(fs, name, problem, **env):
    """`spate status` and `spate doctor` name the only member of etcd with a problem, and say what to do."""
    done = fs.run("status", "--json", env=env)
    bad = [row for row in json.loads(done.stdout) if "etcd" in row and not row["up"]]
    check([(row["name"], row["error"]) for row in bad] == [(name, problem)] and done.returncode == 1, "status: exit %d, %s" % (done.returncode, bad))
    advice = "`spate up` on the machine of %s starts that member" % ("%s (%s)" % (name, bad[0]["etcd"]) if name else bad[0]["etcd"])
    check(advice in done.stderr, "status says: %s" % done.stderr)
    found = next(row for row in json.loads(fs.run("doctor", "--json", env=env).stdout) if row["check"] == "coordinator")
    wanted = "2 of 3 members of etcd answer; %s: %s" % (bad[0]["etcd"] if not name else "%s (%s)" % (name, bad[0]["etcd"]), problem)
    check(found["verdict"] == "warning" and wanted in found["what"] and advice in found["advice"], "doctor says %s" % found)
    return bad[0]["etcd"]


def without_certificates(fs, url):
    """A machine of a client has no etcd and no certificates for it: it sees who listens."""
    check(voter_is_shown(fs, "", "nobody listens there", PATH="/none", SPATE_META_COORDINATOR_TLS=fs.root + "/none") == url, "another address is shown")


def a_voter_stands_still(fs):
    """It accepts connections, and answers nobody. A machine without the program etcd sees that, too."""
    whole(fs)
    pid = supervisors(fs)["etcd-3"][1]
    os.kill(pid, signal.SIGSTOP)
    voter_is_shown(fs, "etcd-3", "it does not answer")
    voter_is_shown(fs, "etcd-3", "it does not answer", PATH="/none", SPATE_ETCD="")
    check(b"etcd-3" in fs.run("status").stdout, "the table does not name it")
    leader = next(server for server, (part, _) in parts(fs).items() if part == "leads")
    check([gauge(fs, server, "leads") for server in range(1, METAS + 1)] == [int(server == leader) for server in range(1, METAS + 1)], "metrics: who leads")
    check(gauge(fs, leader, "record_age_seconds") <= 5, "metrics: one member of etcd is enough for the record to be old")
    all_pids = [pid for _, pid in supervisors(fs).values()]
    for one in all_pids:
        os.kill(one, signal.SIGSTOP)
    for words in (("min", "2"), ("restore",), ("list",), ("remove", "etcd-3")):
        told = fs.run("coord", *words).stderr
        check("most members of etcd must answer" in told, "spate coord %s: %s" % (words, told))
    wait_until(lambda: gauge(fs, leader, "record_age_seconds") >= 8, "metrics tell that etcd is silent", 60)
    for one in all_pids:
        os.kill(one, signal.SIGCONT)
    wait_until(lambda: gauge(fs, leader, "record_age_seconds") <= 2, "metrics tell that etcd answers", 60)
    wait_until(lambda: fs.run("status").returncode == 0, "all members of etcd answer again", 60)


def any_process_is_killed(fs):
    """Kills a supervisor, a member of etcd, a backup and the primary, one after the other."""
    namer = Namer(fs, "names")
    namer.goes_on()
    before = supervisors(fs)
    os.kill(before["etcd-1"][1], signal.SIGKILL)  # starts again by itself
    namer.goes_on()
    wait_until(lambda: supervisors(fs)["etcd-1"][1] not in (0, before["etcd-1"][1]), "etcd-1 is started again", 30)
    fs.seen.add(supervisors(fs)["etcd-1"][1])
    os.kill(before["etcd-2"][0], signal.SIGKILL)  # its member ends with it
    wait_until(lambda: not alive(before["etcd-2"][1]), "etcd-2 ends with its supervisor")
    namer.goes_on()
    voter_is_shown(fs, "etcd-2", "nobody listens there")
    without_certificates(fs, next(row["etcd"] for row in rows(fs) if row.get("name") == "etcd-2"))
    for part in ("backup", "leads"):
        whole(fs)
        pid = next(pid for what, pid in parts(fs).values() if what == part)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "it ends")
        namer.goes_on()
        wait_until(lambda: gauge(fs, next(server for server, (what, _) in parts(fs).items() if what == "leads"), "members_missing") == 1, "metrics tell of it", 60)
        up(fs)
    whole(fs)
    check(sorted(supervisors(fs)) == ["etcd-1", "etcd-2", "etcd-3"], "`spate up` has not started what was missing")
    namer.end()


def unauthenticated_peers(fs):
    """Only holders of the certificates can talk to etcd. Otherwise another user of the machine could decide who is the
    primary."""
    for url in (row["etcd"] for row in rows(fs) if "etcd" in row):
        for tried in (url, url.replace("https", "http")):
            try:
                unchecked = ssl._create_unverified_context()
                urllib.request.urlopen(urllib.request.Request(tried + "/v3/kv/range", data=b'{"key":"AA=="}'), timeout=10, context=unchecked)
            except (OSError, urllib.error.URLError):
                continue
            raise AssertionError("a peer without a certificate is answered at " + tried)
    for name in ("key.pem", "ca-key.pem"):
        check(os.stat("%s/coord/tls/%s" % (fs.dir, name)).st_mode & 0o077 == 0, name + " can be read by others")


def a_revoked_key_stays_revoked(fs):
    """Every later leader knows revoked keys, also those that were revoked while another server led, and after a restart
    of all servers."""
    uid = os.getuid() or 65504  # root cannot have a user key
    keys = {}
    for name in ("good", "early", "late"):
        path = "%s/%s.key" % (fs.root, name)
        told = fs.spate("key", "issue", "--uid", str(uid), "--gid", str(uid), "-o", path, "--json")
        keys[name] = (json.loads(told)["id"], {"SPATE_FS_CLIENT_KEY_FILE": path})

    def refused(*names):
        for name, (_, env) in keys.items():
            done = fs.run("ls", "spate:/", env=env)
            if name in names:
                check(done.returncode == 1 and "was revoked" in done.stderr, "%s: exit %d, %s" % (name, done.returncode, done.stderr))
            else:
                check(done.returncode == 0, "%s: exit %d, %s" % (name, done.returncode, done.stderr))
        listed = {row["id"] for row in json.loads(fs.run("key", "list", "--json").stdout)["revoked"]}
        check(listed == {keys[name][0] for name in names}, "revoked: %s" % listed)

    def another_leads():
        whole(fs)
        leader, pid = next((server, pid) for server, (part, pid) in parts(fs).items() if part == "leads")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: "leads" in [part for server, (part, _) in parts(fs).items() if server != leader], "another one leads", 60)

    refused()
    fs.spate("key", "revoke", keys["early"][0])
    refused("early")
    another_leads()
    refused("early")
    fs.run("key", "revoke", keys["late"][0])  # the command mentions that a server has died
    refused("early", "late")
    up(fs)
    another_leads()
    refused("early", "late")
    up(fs)


def down_and_up(fs):
    before = supervisors(fs)
    fs.spate("down", "-q", "--dir", fs.dir)
    check(not any(alive(pid) for pair in before.values() for pid in pair if pid), "etcd goes on after `spate down`")
    key = fs.dir + "/coord/tls/key.pem"
    os.chmod(key, 0o644)  # with a readable key anybody could decide who leads
    done = subprocess.run([os.path.join(BIN, "spated"), "--config", fs.dir + "/spate.toml", "--server", "1"], env=fs.env, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 1 and key + " can be read or changed by others" in done.stdout, "exit %d, %s" % (done.returncode, done.stdout))
    os.chmod(key, 0o600)
    up(fs)
    check(fs.spate("cat", "spate:/a") == b"kept", "the file is not there after down and up")
    for words in (("logs", "etcd-2"), ("logs",)):
        check(b"etcdserver" in fs.spate(*words), "spate %s shows no log of etcd" % (words,))


def etcd_folders(fs):
    return ["%s/coord/etcd-%d" % (fs.dir, number) for number in range(1, VOTES + 1)]


def end_etcd(fs):
    for supervisor, etcd in supervisors(fs).values():
        os.kill(supervisor, signal.SIGTERM)
        wait_until(lambda: not alive(supervisor) and not (etcd and alive(etcd)), "etcd ends")


def without_refuses(fs):
    """--without takes numbers of meta servers."""
    for word, text in (("one", "takes the number of a meta server"), ("1x", "takes the number of a meta server"), ("-1", "takes the number"),
                       (str(METAS + 1), "no meta server with this number, but 1, 2, 3"), ("99999999999", "takes the number")):
        done = fs.run("coord", "restore", "--without=" + word)
        check(done.returncode == 1 and text in done.stderr, "--without %s: exit %d, %s" % (word, done.returncode, done.stderr))
    for word in ("1", "01"):  # the same server
        done = fs.run("coord", "restore", "--without=" + word)
        check("this server answers, so it must take part" in done.stderr, "--without %s: %s" % (word, done.stderr))


def etcd_is_lost(fs):
    """etcd loses its data, and then an old copy is put back. In that copy the primary of that time leads, which lacks
    later changes."""
    whole(fs)
    old = next(server for server, (part, _) in parts(fs).items() if part == "leads")
    end_etcd(fs)
    for folder in etcd_folders(fs):
        shutil.copytree(folder, folder + ".old")
    up(fs)
    os.kill(parts(fs)[old][1], signal.SIGKILL)
    done = fs.run("put", "spate:/later", input=b"later")  # through another primary; the command mentions that a server has died
    check(done.returncode == 0, "put: exit %d, %s" % (done.returncode, done.stderr))
    wait_until(lambda: [part for part, _ in parts(fs).values() if part == "leads"], "another one leads", 60)

    end_etcd(fs)
    for folder in etcd_folders(fs):
        shutil.rmtree(folder)
        os.rename(folder + ".old", folder)
    up(fs)  # also starts the old primary, which finds itself in the record
    # The old primary asks the others, or hears of the later epoch from the primary before it has read the record.
    wait_until(lambda: any("knows an older epoch" in fs.log(server) for server in range(1, METAS + 1)) or
               parts(fs).get(old, ("leads",))[0] in ("backup", "joining"), "the old primary knows that it was removed", 60)
    check(parts(fs)[old][0] != "leads" and fs.spate("cat", "spate:/later") == b"later", "what was acknowledged is gone: %s" % parts(fs))
    without_refuses(fs)
    refused = fs.run("coord", "restore", "--without", str(old))
    check(refused.returncode == 1 and "must take part" in refused.stderr, refused.stderr)
    fs.spate("coord", "restore")
    whole(fs)
    check(fs.spate("cat", "spate:/later") == b"later", "what was acknowledged is gone after the restore")
    check(b"Nothing needs to be done" in fs.spate("coord", "restore"), "a second restore changes something")

    fs.spate("coord", "min", "2")
    wait_until(lambda: all("at least 2 copies" in row["group"] for row in rows(fs) if row.get("group", "").startswith("leads")), "the primary knows the minimum", 30)
    end_etcd(fs)
    for folder in etcd_folders(fs):
        shutil.rmtree(folder)
    up(fs)
    fs.spate("put", "spate:/meanwhile", input=b"m")  # the primary goes on
    told = fs.spate("coord", "restore").decode()
    check("Changes of names need 2 of 3 meta servers." in told, "coord restore: %s" % told)
    check(json.loads(fs.spate("coord", "--json", "min"))["min"] == 2, "the minimum that was set is forgotten")
    fs.spate("coord", "min", "1")
    whole(fs)
    check(fs.spate("cat", "spate:/later", "spate:/meanwhile") == b"laterm", "files differ after etcd's data was lost")


def the_only_store_that_is_up_to_date_is_lost(fs):
    """The server that served alone comes back with an empty store. It must not lead: the others' copies would be replaced by nothing."""
    whole(fs)
    before = parts(fs)
    last = next(server for server, (part, _) in before.items() if part == "leads")
    for server, (_, pid) in before.items():
        if server != last:
            os.kill(pid, signal.SIGKILL)
    done = fs.run("put", "spate:/alone", input=b"alone")
    check(done.returncode == 0, "put: %s" % done.stderr)
    os.kill(before[last][1], signal.SIGKILL)
    wait_until(lambda: not alive(before[last][1]), "it ends")
    shutil.rmtree("%s/server-%d/keyval" % (fs.dir, last))
    subprocess.run([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(last), "--format"], env=fs.env, timeout=60, check=True,
                   stderr=subprocess.DEVNULL)
    done = fs.run("up", "-q", "--dir", fs.dir)
    check(done.returncode == 1 and "no meta server leads yet" in done.stderr, "up: exit %d, %s" % (done.returncode, done.stderr))
    check("its store is empty now" in fs.log(last), "the log does not say why")
    done = fs.run("status")
    check(done.returncode == 1 and "no meta server leads" in done.stderr, "status: exit %d, %s" % (done.returncode, done.stderr))
    empty = parts(fs)[last][1]
    os.kill(empty, signal.SIGKILL)
    wait_until(lambda: not alive(empty), "it ends")
    told = fs.fails("coord", "restore", "--without", str(last))
    check("would be LOST" in told and "--accept-loss" in told, "without the word the command says: %s" % told)
    check("leads" not in [part for part, _ in parts(fs).values()], "it was done without the word")
    fs.spate("coord", "restore", "--without", str(last), "--accept-loss")
    wait_until(lambda: "leads" in [part for part, _ in parts(fs).values()], "another one leads", 60)
    up(fs)
    whole(fs)
    check(fs.spate("cat", "spate:/a") == b"kept", "older files are gone")


def a_second_one(fs):
    """The ports of a second file system are chosen next to those of the first."""
    other = fs.root + "/other"
    fs.spate("up", "-q", "--dir", other, "--meta", "2", "--io", "1", "--trove", "mem")
    try:
        fs.spate("put", "--fs", other, "spate:/b", input=b"b")
        check(fs.spate("cat", "--fs", other, "spate:/b") == b"b" and fs.run("cat", "--fs", fs.dir, "spate:/b").returncode == 1, "two file systems are one")
    finally:
        fs.spate("destroy", "--yes", "--dir", other)


def without_etcd(fs):
    """Nothing is created, and the message names the package."""
    for folder in ("/usr/bin", "/usr/local/bin"):
        if os.access(folder + "/etcd", os.X_OK):
            hidden = "mount --bind /dev/null %s/etcd && " % folder
            break
    else:
        return
    if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return
    done = subprocess.run(["unshare", "--mount", "sh", "-ec", hidden + 'exec "$0" up --dir "$1" --meta 3', SPATE, fs.root + "/none"],
                          env=dict(fs.env, PATH="/usr/sbin:/usr/bin:/sbin:/bin", SPATE_ETCD=""), stderr=subprocess.PIPE, text=True)
    check(done.returncode == 1 and "etcd-server" in done.stderr and not os.path.exists(fs.root + "/none"), "without etcd: %s" % done.stderr)


def main():
    if not os.environ.get("SPATE_ETCD") and not shutil.which("etcd"):
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    with Cluster(io=METAS + IOS - 1) as fs:
        fs.port = free_ports(2 * (METAS + IOS + 2 * VOTES))
        fs.metrics = fs.port + METAS + IOS + 2 * VOTES
        done = fs.run("up", "-q", "--dir", fs.dir, "--meta", str(METAS), "--io", str(IOS), "--port", str(fs.port), "--metrics", str(fs.metrics))
        if "built without libcurl" in done.stderr or "libmicrohttpd" in done.stderr:
            skip("spated was built without libcurl or libmicrohttpd")
        check(done.returncode == 0, "up: " + done.stderr)
        leads(fs)
        fs.seen.update(pid for pair in supervisors(fs).values() for pid in pair if pid)
        fs.spate("put", "spate:/a", input=b"kept")
        unauthenticated_peers(fs)
        any_process_is_killed(fs)
        a_voter_stands_still(fs)
        a_revoked_key_stays_revoked(fs)
        down_and_up(fs)
        etcd_is_lost(fs)
        fs.fsck()
        the_only_store_that_is_up_to_date_is_lost(fs)
        a_second_one(fs)
        without_etcd(fs)


main()
