#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's global lock is not held during a call, memory is not copied, and threads, forks and a program's end are survived."""
import errno
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import threading
import unittest

import spate

SERVERS = [int(pid) for pid in os.environ["SPATE_TEST_SERVERS"].split()]


def stop(kind):
    for pid in SERVERS:
        os.kill(pid, kind)


class Test(unittest.TestCase):
    def setUp(self):
        self.fs = spate.connect()
        self.file = self.fs.open_file("/" + self.id(), os.O_RDWR | os.O_CREAT)

    def tearDown(self):
        self.file.close()
        self.fs.close()

    def on_a_thread(self, call, *args):
        """Runs the function on another thread. Its result or exception is put into the list."""
        results = []

        def run():
            try:
                results.append(call(*args))
            except Exception as error:  # for the thread that waits for the result
                results.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, results

    def test_other_threads_run_while_a_call_waits(self):
        self.file.pwrite(b"12345678", 0)
        buffer = bytearray(8)
        stop(signal.SIGSTOP)
        try:
            thread, results = self.on_a_thread(self.file.pread_into, buffer, 0)
            # The other thread has reached the buffer and cannot finish. If it held the global lock, this thread would
            # not get here.
            while True:
                try:
                    buffer.append(0)
                    buffer.pop()
                except BufferError:
                    break
            with self.assertRaises(OSError) as raised:
                self.file.close()
            self.assertEqual(raised.exception.errno, errno.EBUSY)
            self.assertEqual(results, [])
        finally:
            stop(signal.SIGCONT)
        thread.join()
        self.assertEqual(results, [8])
        self.assertEqual(buffer, b"12345678")

    def test_an_operation_is_waited_for_by_one_thread(self):
        started = self.file.pwrite_start(b"1", 0)
        started.wait()
        stop(signal.SIGSTOP)
        try:
            started = self.file.pwrite_start(b"12", 0)
            thread, results = self.on_a_thread(started.wait)
            while not results:
                try:
                    self.assertFalse(started.done())
                except ValueError as error:
                    self.assertIn("another thread", str(error))
                    break
        finally:
            stop(signal.SIGCONT)
        thread.join()
        if results != [2]:  # this thread was looking when that one wanted to wait
            self.assertIsInstance(results[0], ValueError)
        self.assertEqual(started.wait(), 2)

    def test_many_threads_on_one_file(self):
        def work(number):
            part = bytes([number]) * 65536
            for at in range(number, 64, 8):
                self.file.pwrite(part, at * 65536)
                if self.file.pread(65536, at * 65536) != part:
                    return "wrong bytes"
            return "right"

        threads = [self.on_a_thread(work, number) for number in range(8)]
        for thread, results in threads:
            thread.join()
            self.assertEqual(results, ["right"])
        self.assertEqual(self.file.stat().st_size, 64 * 65536)

    def test_large_reads_and_writes_make_no_copy(self):
        size = 128 << 20
        buffer = bytearray(b"1") * size
        self.file.pwrite(memoryview(buffer)[:1 << 20], 0)  # the memory that the library itself needs is allocated
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assertEqual(self.file.pwrite(buffer, 0), size)
        self.assertEqual(self.file.pread_into(buffer, 0), size)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, size // 1024 // 4, "KiB of memory for %d MiB" % (size >> 20))

    def test_a_forked_process_is_refused_and_harms_nothing(self):
        self.file.pwrite(b"parent", 0)
        started = self.file.pwrite_start(b"PARENT", 0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                refused = 0
                for call in (lambda: self.fs.stat("/"), lambda: self.file.pread(1, 0), started.wait):
                    try:
                        call()
                    except RuntimeError as error:
                        refused += "connect again" in str(error)
                del started
                self.file.close()
                self.fs.close()
                with spate.connect() as mine:
                    code = 0 if refused == 3 and mine.isdir("/") else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(started.wait(), 6)
        self.assertEqual(self.file.pread(6, 0), b"PARENT")

    def test_a_program_may_end_with_everything_open(self):
        program = ("import spate\n"
                   "fs = spate.connect(settings={'client.attribute_cache': 'all'})\n"
                   "file = fs.open('/left', 'wb'); file.write(b'12')\n"
                   "started = file.raw.file.pwrite_start(bytes(1 << 20), 2)\n"
                   "other = fs.open_file('/left')\n")
        done = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with self.fs.open("/left", "rb") as file:
            self.assertEqual(file.read(), b"12" + bytes(1 << 20))

    def test_a_server_that_is_away_is_named_after_the_deadline(self):
        self.file.pwrite(b"1", 0)
        with spate.connect(settings={"client.deadline": "4s"}) as fs, fs.open_file("/" + self.id()) as file:
            stop(signal.SIGSTOP)
            try:
                with self.assertRaises(OSError) as raised:
                    file.pread(1, 0)
            finally:
                stop(signal.SIGCONT)
        self.assertIn("server ", str(raised.exception))


faulthandler.dump_traceback_later(300, exit=True)  # a lock held while a stopped server is awaited would stop everything
unittest.main()
