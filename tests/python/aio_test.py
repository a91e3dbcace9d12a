#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spate.aio: the calls, many at once, and tasks that are cancelled."""
import asyncio
import contextlib
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
            with stopped():
                task = asyncio.create_task(file.pread_into(buffer, 0))
                while not in_use(buffer):
                    await asyncio.sleep(0.001)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(in_use(buffer))
            while in_use(buffer):
                await asyncio.sleep(0.001)
            self.assertEqual(buffer, b"12345678")

    async def test_a_timeout_leaves_a_file_that_can_be_closed(self):
        async with aio.connect() as fs:
            opened = await fs.open_file("/timeout", os.O_RDWR | os.O_CREAT)
            with stopped():
                with self.assertRaises(asyncio.TimeoutError):
                    async with opened as file:
                        buffer = bytearray(8)
                        reading = asyncio.create_task(file.pread_into(buffer, 0))
                        while not in_use(buffer):
                            await asyncio.sleep(0.001)
                        asyncio.get_running_loop().call_later(0.1, go_on)  # close waits for that call
                        await asyncio.wait_for(reading, 0.01)
            self.assertTrue(opened.file.closed)

    async def test_a_file_is_closed_even_if_the_task_that_closes_it_is_cancelled(self):
        async with aio.connect() as fs:
            file = await fs.open_file("/cancelled_close", os.O_RDWR | os.O_CREAT)
            with stopped():
                buffer = bytearray(8)
                reading = asyncio.create_task(file.pread_into(buffer, 0))
                while not in_use(buffer):
                    await asyncio.sleep(0.001)
                closing = asyncio.create_task(file.close())
                await asyncio.sleep(0)
                closing.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await closing
                self.assertFalse(file.file.closed)
            await reading
            await asyncio.wait_for(until_closed(file.file), 60)

    async def test_a_cancelled_call_that_had_no_turn_is_not_made(self):
        async with aio.connect(in_flight=1) as fs, await fs.open_file("/turn", os.O_RDWR | os.O_CREAT) as file:
            with stopped():
                buffer = bytearray(8)
                reading = asyncio.create_task(file.pread_into(buffer, 0))
                while not in_use(buffer):
                    await asyncio.sleep(0.001)
                late = asyncio.create_task(file.pwrite(b"late", 0))
                await asyncio.sleep(0)
                late.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await late
            await reading
            self.assertEqual((await file.stat()).st_size, 0)

    async def test_a_tree_is_not_removed_through_a_link(self):
        async with aio.connect() as fs:
            await fs.makedirs("/kept/in")
            await fs.run(fs.fs.symlink, "kept", "/to_kept")
            with self.assertRaises(OSError):
                await fs.rmtree("/to_kept")
            self.assertEqual(await fs.listdir("/kept"), ["in"])


def go_on():
    for pid in SERVERS:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def stopped():
    """Stops all servers while the block runs."""
    for pid in SERVERS:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        go_on()


async def until_closed(file):
    while not file.closed:
        await asyncio.sleep(0.001)


def in_use(buffer):
    try:
        buffer.append(0)
        buffer.pop()
        return False
    except BufferError:
        return True


unittest.main()
