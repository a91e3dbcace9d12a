#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP pages, metrics and dashboard. Strangers who send requests without an end, or who never read the reply, keep
nobody else out. Text smuggled behind a request or in its headers gives nobody more rights."""
import http.client
import os
import re
import signal
import socket
import subprocess
import threading
import time

from lib import SPATE, Cluster, check, skip, wait_until

CROWD = 64


def port_said(process, pattern):
    """Returns the port in the first line that has one."""
    for line in process.stdout:
        if "has no libmicrohttpd" in line:
            skip("built without libmicrohttpd")
        found = re.search(pattern, line)
        if found:
            threading.Thread(target=process.stdout.read, daemon=True).start()  # nobody holds up its log
            return [int(found.group(1)), *found.groups()[1:]]
    check(False, "it does not say where its page is")


class Crowd:
    """Connections that send a byte now and then, so that they are never idle. The request of each never ends."""

    def __init__(self, port, begin):
        self.port, self.begin, self.open, self.ends = port, begin, [], threading.Event()
        self.thread = threading.Thread(target=self.trickle)

    def __enter__(self):
        for _ in range(CROWD):
            self.connect()
        self.thread.start()
        return self

    def connect(self):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.setblocking(False)
        try:
            one.connect(("127.0.0.1", self.port))
        except BlockingIOError:
            pass
        self.open.append([one, False])

    def trickle(self):
        while not self.ends.wait(0.5):
            for pair in self.open:
                try:
                    pair[0].send(b"x" if pair[1] else self.begin)
                    pair[1] = True
                except OSError:
                    pass

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        for one, _ in self.open:
            one.close()


def ask(port, path, timeout=3, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def answers(port, path, **headers):
    try:
        return ask(port, path, **headers)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def nobody_is_kept_out(port, path, **headers):
    """Runs longer than idle connections live, so that the test would notice being kept out."""
    for begin in (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ", b"", b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30):
        with Crowd(port, begin):
            time.sleep(2)  # by then the crowd has sent its first bytes
            good = sum(answers(port, path, **headers) for _ in range(20))
            check(good >= 18, "%d of 20 requests beside a crowd that begins with %r" % (good, begin[:20]))


def smuggled(port, token=None):
    """Two lengths, a body that looks like a request, folded and repeated headers: one request gets one answer, and
    never data without the token."""
    inner = b"GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n"
    requests = (b"GET /api/state HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nContent-Length: 0\r\n\r\n" % len(inner) + inner,
                b"GET /api/state HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + inner,
                b"GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \r\n x\r\n\r\n",
                b"GET http://evil.example/api/state HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /api/state HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
                b"GET /%2561pi/state HTTP/1.0\r\n\r\n", b"GET /api\0/state HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /api/state HTTP/1.1\nHost: localhost\n\n")
    for request in requests:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
            one.sendall(request)
            one.shutdown(socket.SHUT_WR)
            text = b""
            try:
                while part := one.recv(65536):
                    text += part
            except OSError:
                pass
        check(b'"servers"' not in text and b"HTTP/1.1 200" not in text, "%r brought %r" % (request[:60], text[:200]))
    check(token is None or ask(port, "/api/state", Authorization="Bearer " + token)[0] == 200, "the honest one")


def dashboard_page(fs):
    process = subprocess.Popen([SPATE, "dashboard", "--port", "0"], env=fs.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        port, token = port_said(process, r"127\.0\.0\.1:(\d+)/#token=(\w+)")
        nobody_is_kept_out(port, "/api/state", Authorization="Bearer " + token)
        smuggled(port, token)
        for folder in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (process.pid, folder), "rb") as file:
                check(token.encode() not in file.read(), "the token is shown to all users by " + folder)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def metrics_page(fs):
    pid = fs.pids()[2]
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists("/proc/%d" % pid), "the server ends")
    server = subprocess.Popen([os.path.join(os.path.dirname(SPATE), "spated"), "--config", fs.dir + "/spate.toml", "--server", "2", "--set", "log.file=", "--metrics", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=fs.env)
    fs.seen.add(server.pid)
    try:
        port, = port_said(server, r"http://127\.0\.0\.1:(\d+)/metrics")
        wait_until(lambda: answers(port, "/healthz"), "it is healthy")
        nobody_is_kept_out(port, "/healthz")
        smuggled(port)
    finally:
        server.terminate()
        server.wait(60)


def main():
    with Cluster(io=1) as fs:
        fs.up()
        metrics_page(fs)
        fs.up()
        dashboard_page(fs)


main()
