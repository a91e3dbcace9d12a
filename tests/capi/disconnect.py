#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spate_disconnect while another thread is inside a call: it is refused and frees nothing that the call uses.
disconnect.py [LIBRARY]"""
import ctypes
import errno
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import BIN, Cluster, check, wait_until

EPOLL_WAITS = (232, 281, 441)  # epoll_wait, epoll_pwait, epoll_pwait2 on x86-64


def waits_for_the_network(tid):
    with open("/proc/self/task/%d/syscall" % tid) as f:
        number = f.read().split()[0]
    return number.isdigit() and int(number) in EPOLL_WAITS


def main():
    library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else os.path.join(BIN, "../src/capi/libspate.so"))
    library.spate_disconnect.argtypes = [ctypes.c_void_p]
    library.spate_stat.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    with Cluster(io=1) as fs:
        fs.up()
        os.environ.update(fs.env)
        handle = ctypes.c_void_p()
        check(library.spate_connect(ctypes.byref(handle), os.fsencode(fs.dir), None) == 0, "not connected")
        room, results, begun = ctypes.create_string_buffer(1024), [], threading.Event()

        def look():
            begun.set()
            results.append(library.spate_stat(handle, b"/", room))

        check(library.spate_stat(handle, b"/", room) == 0, "no root")
        fs.kill(1, sig=signal.SIGSTOP)
        try:
            caller = threading.Thread(target=look)
            caller.start()
            begun.wait()
            wait_until(lambda: waits_for_the_network(caller.native_id), "the call asks the server")
            refused = library.spate_disconnect(handle)
        finally:
            fs.kill(1, sig=signal.SIGCONT)
        caller.join()
        check(refused == -errno.EBUSY, "disconnected under a call: %d" % refused)
        check(results == [0], "the call gave %r" % results)
        check(library.spate_disconnect(handle) == 0, "not disconnected")


if os.uname().machine != "x86_64":
    print("skipped: needs the numbers of system calls")
    sys.exit(77)
signal.alarm(60)
main()
