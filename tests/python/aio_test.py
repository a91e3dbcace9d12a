#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spate.aio: the calls, many at once, and tasks that are cancelled."""
import asyncio
import os
import signal
import unittest

import spate
from spate import aio

SERVERS = [int(pid) for pid in os.environ["SPATE_TEST_SERVERS"].split()]


class Test(unittest.IsolatedAsyncioTestCase):
    async def test_calls_on_names_and_files(self):
        async with aio.connect() as fs:
            await fs.makedirs("/aio/a")
            await fs.mkdir("/aio/b")
            await fs.write_bytes("/aio/a/f", b"12345678")
            self.assertEqual(await fs.read_bytes("/aio/a/f"), b"12345678")
            await fs.write_bytes("/aio/a/f", b"1234")
            self.assertEqual((await fs.stat("/aio/a/f")).st_size, 4)
            await fs.rename("/aio/a/f", "/aio/b/g")
            self.assertEqual(await fs.listdir("/aio/b"), ["g"])
            self.assertEqual([entry.path for entry in await fs.scandir("/aio/b")], ["/aio/b/g"])
            self.assertFalse(await fs.exists("/aio/a/f"))
            async with await fs.open_file("/aio/b/g", os.O_RDWR) as file:
                buffer = bytearray(8)
                self.assertEqual(await file.pread_into(buffer, 0), 4)
                self.assertEqual(await file.write_list([(10, 2), (0, 1)], b"abc"), 3)
                self.assertEqual(await file.read_list([(0, 1), (10, 2)], memoryview(buffer)[:3]), 3)
                self.assertEqual(buffer, b"cab4\0\0\0\0")
                pattern = spate.Strided(0, 1, [(2, 10)])
                self.assertEqual(await file.write_strided(pattern, b"xy"), 2)
                self.assertEqual(await file.read_strided(pattern, memoryview(buffer)[:2]), 2)
                self.assertEqual(buffer[:2], b"xy")
                await file.fsync()
                await file.truncate(1)
                self.assertEqual((await file.stat()).st_size, 1)
            await fs.unlink("/aio/b/g")
            await fs.rmdir("/aio/b")
            await fs.rmtree("/aio")
            with self.assertRaises(FileNotFoundError):
                await fs.stat("/aio")
            await fs.run(fs.fs.symlink, "nowhere", "/link")
            await fs.run(fs.fs.unlink, "/link")

    async def test_hundreds_at_once(self):
        async with aio.connect(in_flight=8) as fs, await fs.open_file("/many", os.O_RDWR | os.O_CREAT) as file:
            parts = [bytes([at]) * 10000 for at in range(200)]
            await asyncio.gather(*(file.pwrite(part, at * 10000) for at, part in enumerate(parts)))
            self.assertEqual(await asyncio.gather(*(file.pread(10000, at * 10000) for at in range(200))), parts)

    async def test_a_cancelled_task_stops_waiting_and_its_memory_stays(self):
        async with aio.connect() as fs, await fs.open_file("/cancelled", os.O_RDWR | os.O_CREAT) as file:
            await file.pwrite(b"12345678", 0)
            buffer = bytearray(8)
            for pid in SERVERS:
                os.kill(pid, signal.SIGSTOP)
            try:
                task = asyncio.create_task(file.pread_into(buffer, 0))
                while not in_use(buffer):
                    await asyncio.sleep(0.001)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(in_use(buffer))
            finally:
                for pid in SERVERS:
                    os.kill(pid, signal.SIGCONT)
            while in_use(buffer):
                await asyncio.sleep(0.001)
            self.assertEqual(buffer, b"12345678")


def in_use(buffer):
    try:
        buffer.append(0)
        buffer.pop()
        return False
    except BufferError:
        return True


unittest.main()
