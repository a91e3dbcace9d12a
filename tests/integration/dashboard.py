#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate dashboard` over HTTP: what it shows of a file system, and which requests it refuses. dashboard_browser.py
tests the page."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import urllib.parse

from cluster import SPATE, Cluster, check, skip, wait_until


@contextlib.contextmanager
def dashboard(fs, *args):
    """Runs a dashboard and yields its port, token and process. It must end in order at Ctrl-C."""
    process = subprocess.Popen([SPATE, "dashboard", "--port", "0", "-i", "1", "--json", *args], env=fs.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        text = b""
        while not text.endswith(b"}\n"):
            line = process.stdout.readline()
            if not line:
                said = process.stderr.read().decode()
                if "has no libmicrohttpd" in said:
                    skip("spate was built without libmicrohttpd")
                check(False, "the dashboard does not start: " + said)
            text += line
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([0-9a-f]{32})", json.loads(text)["url"])
        check(match, text)
        yield int(match.group(1)), match.group(2), process
        process.send_signal(signal.SIGINT)
        check(process.wait(60) == 0, "exit %d: %s" % (process.returncode, process.stderr.read()))
    finally:
        process.kill()
        process.wait()


def get(port, path, token=None, method="GET", **headers):
    """Returns status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    if token is not None:
        headers["Authorization"] = "Bearer " + token
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def api(port, token, what, **arguments):
    status, _, body = get(port, "/api/" + what + "?" + urllib.parse.urlencode(arguments), token)
    return status, json.loads(body)


def state(port, token):
    status, told = api(port, token, "state")
    check(status == 200, told)
    return told


def the_page(port):
    for path in ("/", "/dashboard.css", "/dashboard.js", "/charts.js", "/layout.js"):
        status, headers, body = get(port, path)
        check(status == 200 and len(body) > 500, "%s: %d" % (path, status))
        policy = headers["Content-Security-Policy"]
        check("default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy, policy)
        check(headers["Referrer-Policy"] == "no-referrer" and headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store", headers)
        check(not re.search(rb"(?:src|href|url\(|from|fetch\()\s*=?\s*[\"'(]*(?:https?:)?//", body), path + " takes something from elsewhere")
    check(get(port, "/etc/passwd")[0] == 404 and get(port, "/../dashboard.cc")[0] == 404, "a path that there is not")


def refused(port, token):
    for wrong in (None, "", token[:-1], token + "0", token.upper() + "x", "0" * 32, "x" * 5000):
        for path in ("/api/state", "/api/path?path=/"):
            status, _, body = get(port, path, wrong)
            check(status == 401 and "wrong token" in json.loads(body)["error"] and b"servers" not in body, "%s: %d %s" % (wrong, status, body))
    check(get(port, "/api/state?token=" + token)[0] == 401, "the token counts in a URL, which logs keep")
    for host in ("evil.example", "evil.example:%d" % port, "127.0.0.1.evil.example", "localhost.evil"):
        status, _, body = get(port, "/api/state", token, Host=host)
        check(status == 403 and b"servers" not in body, "asked as %s: %d" % (host, status))
        check(get(port, "/", Host=host)[0] == 403, "the page for " + host)
    for host in ("localhost", "localhost:1", "[::1]:7480"):
        check(get(port, "/api/state", token, Host=host)[0] == 200, "asked as %s" % host)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        check(get(port, "/api/state", token, method=method)[0] == 405, method)
    with socket.socket() as elsewhere:
        check(elsewhere.connect_ex(("127.0.0.2", port)) != 0, "it listens on other addresses, too")


def what_is_told(fs, port, token):
    wait_until(lambda: len(state(port, token)["points"]) > 1, "points of the charts")
    told = state(port, token)
    check([server["server"] for server in told["servers"]] == [1, 2, 3, 4] and all(server["up"] for server in told["servers"]), told["servers"])
    targets = [target for server in told["servers"] for target in server["targets"]]
    check(len(targets) == 3 and all(0 < target["free"] <= target["total"] and target["state"] == "up" for target in targets), targets)
    check(told["space"]["total"] >= targets[0]["total"] and told["troubles"] == [], told["space"])

    writer = subprocess.Popen(["sh", "-c", 'while :; do head -c 4194304 /dev/zero | "$0" put spate:/busy || exit; done', SPATE],
                              env=dict(fs.env, SPATE_CLIENT_TAG="job-7"), start_new_session=True)
    try:
        def seen():
            now = state(port, token)
            busiest = now["busiest"]
            return (any(point["written_bytes"] > 0 and point["write"]["p99_ns"] > 0 for point in now["points"])
                    and any(row["job"] == "job-7" for row in busiest["job"]) and any(row["path"] == "/busy" for row in busiest["file"]))
        wait_until(seen, "the writer, its job and its file are told", 60)
    finally:
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()


def paths(fs, port, token):
    fs.spate("setstripe", "-S", "64K", "-c", "3", "spate:/striped")
    fs.spate("put", "spate:/striped", input=b"x" * (300 << 10))
    status, told = api(port, token, "path", path="/striped")
    check(status == 200 and told["size"] == 300 << 10 and told["next"] is None, told)
    layout = json.loads(fs.spate("getstripe", "--json", "spate:/striped"))[0]
    check([[target["target"] for target in slot["targets"]] for slot in told["layout"]["slots"]] == layout["slots"], told["layout"])
    at = 0
    for number, (offset, size, slot, physical) in enumerate(told["strips"]):
        check((offset, slot, physical) == (at, number % 3, (number // 3) * (64 << 10)), told["strips"])
        at += size
    check(at == 300 << 10 and sum(slot["bytes"] for slot in told["layout"]["slots"]) == at, told)

    # A file with a million strips, and a directory with more names than a page holds, are shown in parts.
    with open(fs.root + "/long", "wb") as file:
        file.truncate(4 << 30)
    fs.spate("setstripe", "-S", "4K", "spate:/long")
    fs.spate("cp", fs.root + "/long", "spate:/long")
    for start in (0, 1 << 31):
        status, told = api(port, token, "path", path="/long", **{"from": str(start)})
        check(status == 200 and len(told["strips"]) == 256 and told["strips"][0][0] == start and told["next"] == str(start + (1 << 20)), told)
    names = ["n%03d" % i for i in range(250)]
    os.makedirs(fs.root + "/many")
    for name in names + ["wild\x1b\\<b>\udcff"]:
        open(os.path.join(fs.root, "many", name), "w").close()
    fs.spate("cp", "-r", fs.root + "/many", "spate:/many")
    found, after = [], "0"
    while after is not None:
        status, told = api(port, token, "path", path="/many", **{"from": after})
        check(status == 200 and len(told["entries"]) <= 200, told)
        found += [entry["name"] for entry in told["entries"]]
        after = told["next"]
    check(sorted(found) == sorted(names + ["wild\\x1b\\x5c<b>\\xff"]), found)
    check(api(port, token, "path", path="/many/wild\\x1b\\x5c<b>\\xff")[0] == 200, "a wild name is not found again")

    for path, expected in (("/none", 404), ("", 400), ("striped", 400), ("/a\0b", 400), ("/" + "x" * 5000, 400), ("/striped/x", 400)):
        status, told = api(port, token, "path", path=path)
        check(status == expected and told["error"], "%r: %d %s" % (path[:20], status, told))
    for start in ("-1", "x", "1e3", str(1 << 64)):
        check(api(port, token, "path", path="/", **{"from": start})[0] == 400, "from " + start)
    check(api(port, token, "path", path="/striped", **{"from": str((1 << 64) - 1)})[1]["strips"] == [], "behind the end")


def crowds(port, token):
    """A million paths, readers that do not read, and endless connections do not block the dashboard for other users."""
    with socket.create_connection(("127.0.0.1", port)) as many:
        with contextlib.suppress(OSError):
            many.sendall(b"GET /api/path?" + b"path=/a&" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        many.settimeout(30)
        with contextlib.suppress(OSError):
            check(many.recv(100).startswith(b"HTTP/1.1 4"), "a million paths were taken")
    slow = []
    for _ in range(40):
        slow.append(socket.create_connection(("127.0.0.1", port)))
        slow[-1].sendall(b"GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n" % token.encode())
    try:
        wait_until(lambda: answers(port, token), "it answers beside 40 connections that stand still", 60)
    finally:
        for one in slow:
            one.close()


def answers(port, token):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return get(port, "/api/state", token)[0] == 200
    return False


def servers_that_are_gone(fs, port, token):
    fs.kill(2)
    wait_until(lambda: [s["up"] for s in state(port, token)["servers"]] == [True, False, True, True], "server 2 is told to be down", 60)
    check("server 2" in state(port, token)["servers"][1]["error"], state(port, token)["servers"][1])
    fs.kill(1)
    wait_until(lambda: not state(port, token)["servers"][0]["up"], "server 1 is told to be down", 60)
    status, told = api(port, token, "path", path="/")
    check(status == 502 and told["error"], told)
    fs.up()
    wait_until(lambda: all(s["up"] for s in state(port, token)["servers"]), "all are up again", 60)
    wait_until(lambda: api(port, token, "path", path="/")[0] == 200, "a path is shown again", 60)


def main():
    with Cluster(io=3) as fs:
        fs.up()
        with dashboard(fs) as (port, token, process):
            with open("/proc/%d/cmdline" % process.pid, "rb") as file:
                check(token.encode() not in file.read(), "other users see the token in the list of processes")
            the_page(port)
            refused(port, token)
            what_is_told(fs, port, token)
            paths(fs, port, token)
            crowds(port, token)
            said = fs.fails("dashboard", "--port", str(port))
            check("--port 0" in said, said)
            servers_that_are_gone(fs, port, token)
        for wrong in (["-i", "0"], ["--port", "65536"]):
            check(fs.run("dashboard", *wrong).returncode == 2, wrong)
        fs.fsck()


if __name__ == "__main__":
    main()
