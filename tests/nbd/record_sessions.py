#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of nbd_connection_fuzz from real sessions: what nbdinfo, nbdcopy, nbdsh, qemu-img and qemu-io send to an export, recorded
by a relay between them and the server.

  SPATE_BIN=build/bin SPATE_SOURCE=. tests/nbd/record_sessions.py tests/fuzz/corpus/nbd_connection

No test: a seed stays as it is once it is there. One file for each connection, at most so many of a program."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from common import Export, check

KIB, MIB = 1 << 10, 1 << 20
OPTION, REQUEST, WRITE = b"IHAVEOPT", b"\x25\x60\x95\x13", 1
PAYLOADS_MADE_UP = 1 << 3  # nbd_connection_fuzz.cc, Script
MOST = 2                   # connections recorded of one program
NBDSH = """
h.pwrite(b"x" * 65536, 4096)
h.pwrite(b"y" * 262144, 131072, nbd.CMD_FLAG_FUA)
h.flush(); h.trim(65536, 0); h.zero(65536, 65536, nbd.CMD_FLAG_NO_HOLE)
h.cache(65536, 0)
h.block_status(1048576, 0, lambda *args: 0)
cookies = [h.aio_pread(nbd.Buffer(16384 * (i + 1)), 32768 * i) for i in range(4)]
for cookie in cookies:
    while not h.aio_command_completed(cookie): h.poll(-1)
h.pread_structured(4096, 4096, lambda *args: 0, nbd.CMD_FLAG_DF)
"""


class Relay:
    """Passes data between clients and the export. .sessions has the bytes that each client has sent."""

    def __init__(self, path, export):
        self.path, self.export, self.sessions = path, export, []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listening.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.export)
            self.sessions.append(bytearray())
            threading.Thread(target=self.pump, args=(client, server, self.sessions[-1]), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, bytearray()), daemon=True).start()

    @staticmethod
    def pump(source, sink, record):
        try:
            while data := source.recv(65536):
                record += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def without_payloads(sent):
    """Returns the client's bytes, with only the headers of writes."""
    at = 4  # its flags
    out = bytearray(sent[:at])
    while at < len(sent):
        if sent[at:at + 8] == OPTION:
            end = at + 16 + int.from_bytes(sent[at + 12:at + 16], "big")
            out += sent[at:end]
        else:
            check(sent[at:at + 4] == REQUEST, "neither an option nor a request at %d" % at)
            out += sent[at:at + 28]
            write = int.from_bytes(sent[at + 6:at + 8], "big") == WRITE
            end = at + 28 + (int.from_bytes(sent[at + 24:at + 28], "big") if write else 0)
        at = end
    return bytes(out)


def programs(url, work):
    data = os.path.join(work, "data")
    with open(data, "wb") as f:
        f.write(os.urandom(256 * KIB))
        f.truncate(MIB)
    return {"nbdinfo": ["nbdinfo", url], "nbdinfo_map": ["nbdinfo", "--map", url], "nbdinfo_list": ["nbdinfo", "--list", url],
            "nbdcopy_to": ["nbdcopy", "--flush", data, url], "nbdcopy_from": ["nbdcopy", url, data + ".back"],
            "nbdsh": ["nbdsh", "--base-allocation", "-u", url, "-c", NBDSH], "nbdsh_simple": ["nbdsh", "-c", "h.set_request_structured_replies(False)", "-c",
            "h.connect_uri('%s')" % url, "-c", "h.pread(65536, 1000)", "-c", "h.pwrite(b'z' * 300, 5)", "-c", "h.shutdown()"],
            "qemu_img": ["qemu-img", "map", "--output=json", url],
            "qemu_io": ["qemu-io", "-f", "raw", "-c", "write -P 7 512 4k", "-c", "write -z 64k 64k", "-c", "read 0 128k", "-c", "discard 0 64k", "-c", "flush", url]}


def main():
    folder = sys.argv[1]
    work = tempfile.mkdtemp(prefix="spate-record-")
    disk = os.path.join(work, "disk")
    with open(disk, "wb") as f:
        f.write(os.urandom(512 * KIB))
        f.truncate(MIB)
    with Export("--unix", os.path.join(work, "export"), "disk=" + disk):
        for name, words in programs("nbd+unix:///disk?socket=" + os.path.join(work, "relay"), work).items():
            if shutil.which(words[0], path="/usr/bin") is None:
                continue
            relay = Relay(os.path.join(work, "relay"), os.path.join(work, "export"))
            subprocess.run(words, env=dict(os.environ, PATH="/usr/bin:" + os.environ["PATH"]), stdout=subprocess.DEVNULL, check=True, timeout=60)
            os.unlink(relay.path)
            for number, sent in enumerate(relay.sessions[:MOST]):
                with open(os.path.join(folder, "%s_%d" % (name, number)), "wb") as f:
                    f.write(PAYLOADS_MADE_UP.to_bytes(2, "little") + b"\xff" + without_payloads(sent))
    shutil.rmtree(work)


main()
