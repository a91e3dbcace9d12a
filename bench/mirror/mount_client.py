#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mount_client.py FOLDER write|read|fsync|create BYTES COUNT STREAMS
Works on a mounted file system. Each stream makes COUNT calls of BYTES in its own folder FOLDER/N, one after the other.
write: to a new file, with one fsync at the end. read: of that file, after the kernel's pages of it were dropped.
fsync: a write to a new file, and an fsync after each. create: a new file, one write, close.
Prints one line of JSON: calls, seconds, the median call and the longest one, us. The fsync at the end of a new file
counts in the seconds.
"""
import concurrent.futures
import json
import os
import statistics
import sys
import threading
import time


class Stream:
    def __init__(self, folder, what, size, count):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.what, self.size, self.count = folder, what, size, count
        self.data = bytearray(b"\x5a" * size)
        self.file = -1
        if what == "read":
            self.file = os.open(folder + "/data", os.O_RDONLY)
            os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
        elif what != "create":
            self.file = os.open(f"{folder}/{'data' if what == 'write' else what}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)

    def call(self, i):
        if self.what == "read":
            return os.preadv(self.file, [self.data], i * self.size)
        if self.what == "create":
            file = os.open(f"{self.folder}/{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            done = os.write(file, self.data)
            os.close(file)
            return done
        done = os.pwrite(self.file, self.data, i * self.size)
        if self.what == "fsync":
            os.fsync(self.file)
        return done

    def run(self, barrier):
        """Returns when it began and ended, and what each call took."""
        spans = []
        barrier.wait()
        begin = time.perf_counter()
        for i in range(self.count):
            before = time.perf_counter()
            if self.call(i) != self.size:
                raise OSError(f"{self.folder}: {self.what} of fewer bytes than wanted")
            spans.append(time.perf_counter() - before)
        if self.what == "write":
            os.fsync(self.file)
        if self.file >= 0:
            os.close(self.file)
        return begin, time.perf_counter(), spans


def main():
    folder, what = sys.argv[1:3]
    size, count, number = (int(word) for word in sys.argv[3:])
    streams = [Stream(f"{folder}/{i}", what, size, count) for i in range(number)]
    barrier = threading.Barrier(number)
    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        ended = list(pool.map(lambda stream: stream.run(barrier), streams))
    begins, ends, spans = zip(*ended)
    spans = [span for of_one in spans for span in of_one]
    print(json.dumps({"calls": len(spans), "seconds": max(ends) - min(begins), "median_us": statistics.median(spans) * 1e6,
                      "longest_us": max(spans) * 1e6}))


main()
