#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spated --metrics and spate up --metrics: what a scraper and a health check get, what bad requests get, and that neither scrapers that never read nor
very many connections hold up the server. With promtool and prometheus on this machine: what these think of it."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

from cluster import SPATED, Cluster, alive, check, free_ports, skip, wait_until

SOURCE = os.environ["SPATE_SOURCE"]
CONNECTIONS = 16


def page_of(fs, number, *more):
    """Starts a server, again if it runs, with a metrics page at a port that the kernel chooses. Returns the process and the port."""
    pid = fs.pids().get(number)
    if pid and alive(pid):
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not alive(pid), "server %d ends" % number)
    log = open(fs.dir + "/metrics%d.log" % number, "w+b")
    server = subprocess.Popen([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(number), "--set", "log.file=", "--metrics", "0", *more],
                              stdout=log, stderr=log, env=fs.env)
    fs.seen.add(server.pid)

    def said():
        with open(log.name, encoding="utf-8") as file:
            return file.read()

    wait_until(lambda: "/metrics" in said() or server.poll() is not None, "the server says where its metrics are")
    if "has no libmicrohttpd" in said():
        skip("spated was built without libmicrohttpd")
    found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", said())
    check(found, "no address in: " + said())
    return server, int(found.group(1))


def ask(port, path, method="GET", body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type"), text


def scraped(fs, port):
    wait_until(lambda: ask(port, "/healthz")[0] == 200, "the server is healthy")
    fs.spate("mkdir", "spate:/counted")
    status, kind, text = ask(port, "/metrics")
    check(status == 200 and kind.startswith("text/plain; version=0.0.4"), "%s %s" % (status, kind))
    count = re.search(r'^spate_rpc_request_ns_count\{op="mkdir"\} (\d+)$', text, re.MULTILINE)
    check(count and int(count.group(1)) == 1, "mkdir is not counted: %s" % re.findall(r".*_count.*", text))
    if shutil.which("promtool"):
        told = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        check(told.returncode in (0, 3), "promtool: %s" % told.stderr)


def by_up():
    """`spate up --metrics PORT`: each server has its page, also when it is started again."""
    first = free_ports(5)
    with Cluster(io=2) as fs:
        fs.up("--metrics", str(first))
        for port in range(first, first + 3):
            wait_until(lambda port=port: healthy(port), "port %d is healthy" % port)
            check("spate_rpc_request_ns" in ask(port, "/metrics")[2], "no metrics at port %d" % port)
        fs.spate("down", "--dir", fs.dir)
        fs.up("--metrics", str(first))  # as it is already
        check(healthy(first + 2), "no page after a start")
        refusal = fs.fails("up", "--dir", fs.dir, "--metrics", str(first + 1))
        check("--metrics %d" % (first + 1) in refusal, "another port: " + refusal)
        beyond = fs.fails("--set", "metrics.port=65534", "ls", "spate:/")
        check("server 3 would have a port beyond 65535" in beyond, "a port beyond the last: " + beyond)


def refused(port):
    check(ask(port, "/")[0] == 404, "/")
    check(ask(port, "/metrics/../../etc/passwd")[0] == 404, "a path that leads upwards")
    check(ask(port, "/metrics", "POST", b"x" * 10)[0] == 405, "POST")
    check(ask(port, "/metrics", "DELETE")[0] == 405, "DELETE")
    check(ask(port, "/metrics", "HEAD")[2] == "", "HEAD brings a body")
    large = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000000
    for nonsense in (large, b"\0" * 100, b"GET /metrics\r\n\r\n", b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 100000 + b"\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            try:
                one.sendall(nonsense)
                one.shutdown(socket.SHUT_WR)
                while one.recv(65536):
                    pass
            except OSError:
                pass  # the connection was cut off
    check(ask(port, "/healthz")[2] == "ok\n", "after nonsense")


def resident(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) * 1024


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def crowds(fs, server, port):
    """Scrapers that request as much as possible and read nothing, and many more that send nothing."""
    before, open_before = resident(server.pid), descriptors(server.pid)
    held = []
    for at in range(CONNECTIONS * 4):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.setblocking(False)
        held.append(one)
        try:
            one.connect(("127.0.0.1", port))
        except BlockingIOError:
            pass
        if at < CONNECTIONS:
            wait_until(lambda one=one: sent(one, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50), "the request leaves")
    fs.spate("mkdir", "spate:/while")
    fs.spate("ls", "spate:/")
    opened = descriptors(server.pid) - open_before
    check(opened <= CONNECTIONS + 8, "%d more descriptors" % opened)  # some of them belong to the commands
    grown = resident(server.pid) - before
    check(grown < 64 << 20, "the server has grown by %d bytes" % grown)
    # The server drops idle connections and serves the waiting ones.
    wait_until(lambda: healthy(port), "a health check is answered again", 60)
    for one in held:
        one.close()


def sent(one, data):
    try:
        return one.send(data) > 0
    except BlockingIOError:
        return False


def healthy(port):
    try:
        return urllib.request.urlopen("http://127.0.0.1:%d/healthz" % port, timeout=5).read() == b"ok\n"
    except OSError:
        return False


def option_and_file_differ(fs):
    """--metrics takes the place of metrics.port, and the log says so."""
    configured = free_ports(1)
    server, port = page_of(fs, 1, "--set", "metrics.port=%d" % configured)
    check(port != configured and not healthy(configured), "the configured port is used, too")
    wait_until(lambda: healthy(port), "the port of --metrics is healthy")
    with open(fs.dir + "/metrics1.log", encoding="utf-8") as file:
        said = file.read()
    check("--metrics 0 takes the place of the configured metrics address 127.0.0.1:%d" % configured in said, "the log says nothing of it: " + said)
    return server


def bad_addresses(fs):
    for address, words in (("x", "no address"), ("1:2:3:x", "no address"), ("65536", "no address"), ("localhost:1", "no address"), ("192.0.2.1:9464", "192.0.2.1")):
        done = subprocess.run([SPATED, "--config", fs.dir + "/spate.toml", "--server", "1", "--metrics", address], capture_output=True, text=True, timeout=60, env=fs.env)
        check(done.returncode == 1 and words in done.stderr, "%s: %s" % (address, done))


def rules():
    rules_file = SOURCE + "/packaging/prometheus/spate-alerts.yml"
    if shutil.which("promtool"):
        told = subprocess.run(["promtool", "check", "rules", rules_file], capture_output=True, text=True, timeout=60)
        check(told.returncode == 0, "promtool: " + told.stdout + told.stderr)
    with open(SOURCE + "/packaging/prometheus/spate-dashboard.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    with open(rules_file, encoding="utf-8") as file:
        asked += re.findall(r"expr: (.*)", file.read())
    return {name for text in asked for name in re.findall(r"\bspate_\w+", text)}


def names_are_served(*ports):
    """Every metric in a dashboard or an alert must exist on some server, or else it would stay silent for ever."""
    text = "".join(ask(port, "/metrics")[2] for port in ports)
    served = set(re.findall(r"^(spate_\w+)", text, re.MULTILINE))
    # Only several meta servers have those of a group: up_meta.py looks at each of them.
    absent = {name for name in rules() if name not in served and not name.startswith("spate_group_")}
    check(not absent, "asked for by packaging/prometheus and not served: %s" % absent)


def each_has_a_meaning(*ports):
    """Every metric on the page has a line that says what it means."""
    for port in ports:
        text = ask(port, "/metrics")[2]
        kinds, helped = (set(re.findall(r"^# %s (\w+) ." % word, text, re.MULTILINE)) for word in ("TYPE", "HELP"))
        check(kinds and kinds == helped, "without a meaning (src/metrics/help.cc): %s" % (kinds ^ helped))


def space(fs, port, number):
    """The page tells the size of the device below each store of a server as the kernel does, and that some of it is free."""
    text = ask(port, "/metrics")[2]
    told = {(name, store): int(value) for name, store, value in re.findall(r'^spate_trove_(\w+){store="([^"]*)"} (\d+)$', text, re.MULTILINE)}
    stores = {store for _, store in told}
    check("records of server %d" % number in stores and any(store.startswith("target ") for store in stores) == (number != 1), "stores: %s" % told)
    kernel = os.statvfs(fs.dir)
    for store in stores:
        check(told["size_bytes", store] == kernel.f_blocks * kernel.f_frsize, "%s: %s, kernel: %s" % (store, told, kernel))
        check(0 < told["free_bytes", store] <= told["size_bytes", store], "%s: %s" % (store, told))


RULES_TEST = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'spate_trove_size_bytes{{job="spate",instance="a",store="target 512"}}', values: '1000x30'}}
      - {{series: 'spate_trove_free_bytes{{job="spate",instance="a",store="target 512"}}', values: '100x10 40x20'}}
      - {{series: 'spate_server_io_groups_led_degraded{{job="spate",instance="a"}}', values: '0x5 2x25'}}
      - {{series: 'up{{job="spate",instance="b"}}', values: '1x20 0x10'}}
    alert_rule_test:
      - {{eval_time: 10m, alertname: SpateStoreNearlyFull, exp_alerts: []}}
      - eval_time: 20m
        alertname: SpateStoreNearlyFull
        exp_alerts: [{{exp_labels: {{job: spate, instance: a, store: "target 512", severity: warning}}, exp_annotations: {full}}}]
      - eval_time: 25m
        alertname: SpateCopiesMissing
        exp_alerts: [{{exp_labels: {{job: spate, instance: a, severity: critical}}, exp_annotations: {copies}}}]
      - {{eval_time: 15m, alertname: SpateServerDown, exp_alerts: []}}
      - eval_time: 25m
        alertname: SpateServerDown
        exp_alerts: [{{exp_labels: {{job: spate, instance: b, severity: critical}}, exp_annotations: {down}}}]
"""


def alerts_fire():
    """promtool plays series to the alert rules: they fire when they should, with an action that names what to type."""
    if not shutil.which("promtool"):
        return
    rules_file = SOURCE + "/packaging/prometheus/spate-alerts.yml"
    with open(rules_file, encoding="utf-8") as file:
        text = file.read()

    def annotations(alert, **labels):
        block = text.split("alert: %s\n" % alert)[1]
        told = {word: json.loads(re.search(r"%s: (\".*\")" % word, block).group(1)) for word in ("summary", "action")}
        for label, value in labels.items():
            told["summary"] = told["summary"].replace("{{ $%s }}" % label.replace("_", ".", 1), value)
        return json.dumps(told)

    with tempfile.TemporaryDirectory(prefix="spate-test-") as folder:
        with open(folder + "/test.yml", "w", encoding="utf-8") as file:
            file.write(RULES_TEST.format(rules=rules_file, down=annotations("SpateServerDown", labels_instance="b"),
                                         full=annotations("SpateStoreNearlyFull", labels_instance="a", labels_store="target 512"),
                                         copies=annotations("SpateCopiesMissing", labels_instance="a", value="2")))
        told = subprocess.run(["promtool", "test", "rules", folder + "/test.yml"], capture_output=True, text=True, timeout=60)
    check(told.returncode == 0, "promtool test rules: " + told.stdout + told.stderr)


def real_prometheus(port):
    """A real Prometheus scrapes the page and has its values afterwards."""
    if not shutil.which("prometheus"):
        return
    with tempfile.TemporaryDirectory(prefix="spate-test-") as folder:
        with open(SOURCE + "/packaging/prometheus/prometheus.yml", encoding="utf-8") as file:
            text = file.read().replace("127.0.0.1:9464", "127.0.0.1:%d" % port).replace("/etc/prometheus/", SOURCE + "/packaging/prometheus/").replace("15s", "1s")
        with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            file.write(text)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            own = free.getsockname()[1]
        with open(folder + "/log", "wb") as log:
            prometheus = subprocess.Popen(["prometheus", "--config.file=" + folder + "/prometheus.yml", "--storage.tsdb.path=" + folder + "/data",
                                           "--web.listen-address=127.0.0.1:%d" % own], stdout=log, stderr=log)
        try:
            wait_until(lambda: knows(own, "spate_rpc_request_ns_count"), "Prometheus knows what the server has counted", 60)
            wait_until(lambda: knows(own, "up{job='spate'}==1"), "Prometheus takes the server for healthy", 60)
        finally:
            prometheus.terminate()
            prometheus.wait(60)


def knows(port, query):
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d/api/v1/query?query=%s" % (port, urllib.request.quote(query)), timeout=5) as answer:
            return bool(json.load(answer)["data"]["result"])
    except OSError:
        return False


def main():
    if "--prometheus" in sys.argv and not shutil.which("prometheus"):
        skip("needs prometheus")
    with Cluster(io=1) as fs:
        fs.up()
        server, port = page_of(fs, 1)
        io_server, io_port = page_of(fs, 2)
        scraped(fs, port)
        names_are_served(port, io_port)
        each_has_a_meaning(port, io_port)
        space(fs, port, 1)
        space(fs, io_port, 2)
        alerts_fire()
        refused(port)
        real_prometheus(port)
        crowds(fs, server, port)
        for one in (io_server, server):
            one.terminate()
            check(one.wait(60) == 0, "a server does not end in order")
        server = option_and_file_differ(fs)
        server.terminate()
        check(server.wait(60) == 0, "server 1 does not end in order")
        bad_addresses(fs)
        fs.spate("up", "-q", "--dir", fs.dir)
    by_up()


main()
