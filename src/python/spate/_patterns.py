# SPDX-License-Identifier: Apache-2.0
"""Layouts of files over servers, and strided patterns of bytes in a file."""
from __future__ import annotations

from typing import NamedTuple, Sequence


class Layout(NamedTuple):
    """How a file is spread over targets. 0 and "": the directory's value."""

    strip_bytes: int = 0
    target_count: int = 0
    first_target: int = 0
    distribution: str = ""


class Strided(NamedTuple):
    """Blocks at regular distances. Each level (count, stride), the outermost first, repeats the levels inside it `count` times,
    `stride` bytes apart. Strided(0, 4, [(3, 100), (2, 10)]): 4 bytes at 0, 10, 100, 110, 200 and 210."""

    offset: int
    block_size: int
    levels: Sequence[tuple[int, int]] = ()


def box(shape: Sequence[int], start: Sequence[int], count: Sequence[int], itemsize: int, offset: int = 0) -> Strided:
    """The pattern of a box: `count` items from `start` on in each dimension of an array of `shape`. The array begins at byte
    `offset` of the file, and its last index runs fastest (C, numpy)."""
    if not shape or not len(shape) == len(start) == len(count):
        raise ValueError("shape, start and count need one number for each dimension")
    if any(first < 0 or many < 0 or first + many > size for size, first, many in zip(shape, start, count)):
        raise ValueError("the box does not lie within the array")
    distance = itemsize
    distances: list[int] = []
    for size in reversed(shape):
        distances.insert(0, distance)
        distance *= size
    offset += sum(first * apart for first, apart in zip(start, distances))
    return Strided(offset, count[-1] * itemsize, list(zip(count[:-1], distances[:-1])))
