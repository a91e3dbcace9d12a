#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of two mounts change one file by turns, in all ways; after each close both see what is right: read_back.py MOUNT MOUNT
SPATE_SEED and SPATE_STEPS: which changes, and how many."""
import ctypes
import mmap
import os
import random
import sys

MOUNTS = sys.argv[1:3]
SEED = int(os.environ.get("SPATE_SEED", random.randrange(1 << 32)))
STEPS = int(os.environ.get("SPATE_STEPS", "300"))
MOST = 300000
PUNCH_KEEP_SIZE = 3
random.seed(SEED)
libc = ctypes.CDLL(None, use_errno=True)


def place(model):
    offset = random.choice([0, len(model) // 2, random.randrange(MOST // 2)])
    return offset, random.choice([1, 100, 4096, 70000])


def put(model, offset, data):
    model.extend(bytes(max(0, offset + len(data) - len(model))))
    model[offset:offset + len(data)] = data


def write(path, model):
    file = os.open(path, os.O_RDWR)
    for _ in range(random.randrange(1, 4)):
        offset, size = place(model)
        data = random.randbytes(size)
        os.pwrite(file, data, offset)
        put(model, offset, data)
    os.close(file)


def rewrite(path, model):
    data = random.randbytes(random.choice([0, 10, 100000, 200000]))
    with open(path, "wb") as file:
        file.write(data)
    model[:] = data


def append(path, model):
    data = random.randbytes(random.choice([1, 5000]))
    with open(path, "ab") as file:
        file.write(data)
    model.extend(data)


def truncate(path, model):
    size = random.randrange(MOST // 2)
    os.truncate(path, size)
    model.extend(bytes(max(0, size - len(model))))
    del model[size:]


def cut_and_write(path, model):
    with open(path, "r+b") as file:
        size = random.randrange(len(model) + 1)
        file.truncate(size)
        del model[size:]
        file.seek(size)
        file.write(b"cut")
        model.extend(b"cut")


def write_direct(path, model):
    block = mmap.mmap(-1, 8192)
    block[:] = random.randbytes(8192)
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    offset = random.randrange(10) * 4096
    os.pwritev(file, [block], offset)
    os.close(file)
    put(model, offset, block[:])


def punch(path, model):
    file = os.open(path, os.O_RDWR)
    os.pread(file, 10000, 0)
    if libc.fallocate(file, PUNCH_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(6000)) == 0:
        end = min(6000, len(model))
        model[:end] = bytes(end)
    os.close(file)


def copy_within(path, model):
    file = os.open(path, os.O_RDWR)
    os.pread(file, MOST, 0)
    size = min(3000, len(model) // 2)
    if size > 0:
        done = os.copy_file_range(file, file, size, 0, len(model) - size)
        model[len(model) - size:len(model) - size + done] = model[:done]
    os.close(file)


def change_map(path, model):
    if not model:
        return
    file = os.open(path, os.O_RDWR)
    with mmap.mmap(file, len(model)) as view:
        view[-1:] = model[-1:] = b"m"
    os.close(file)


def seen(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    model = bytearray()
    open(f"{MOUNTS[0]}/changed", "wb").close()
    changes = [write, rewrite, append, truncate, cut_and_write, write_direct, punch, copy_within, change_map]
    held = None
    for step in range(STEPS):
        change, mount = random.choice(changes), random.choice(MOUNTS)
        change(f"{mount}/changed", model)
        if random.random() < 0.1:  # a reader that stays open while others change the file
            if held is not None:
                os.close(held)
            held = os.open(f"{random.choice(MOUNTS)}/changed", os.O_RDONLY)
        if held is not None and random.random() < 0.5:
            os.pread(held, 50000, 0)
        for reader in random.sample(MOUNTS, random.randrange(3)):
            assert seen(f"{reader}/changed") == model, f"seed {SEED}, step {step}: {reader} after {change.__name__} on {mount}"


main()
