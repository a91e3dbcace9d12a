# SPDX-License-Identifier: Apache-2.0
"""The goals of MPI-IO on Spate and how the cells of mpi.py meet them: the worst cell of each counts."""

KIB = 1 << 10


def better(speeds, read):
    return max(speeds["disable"][read], speeds["enable"][read])


# Part, MPI or None for each, what is told, goal, (numerator, denominator: a column or a function), the points that count.
RATIOS = (
    ("contiguous", None, "contiguous, 64 KiB and more, of the native call", 0.95, ("independent", "native"), lambda p: p >= 64 * KIB),
    ("pieces", None, "independent pieces of 4 KiB and more, of spate_*_strided", 0.9, ("independent", "native"), lambda p: p >= 4 * KIB),
    ("pieces", "mpich", "... by ROMIO over the mount", 1.5, ("independent", "mount independent"), lambda p: p >= 4 * KIB),
    ("pieces", None, "collective, pieces of 64 B to 4 KiB, of contiguous", 0.6, ("automatic", "contiguous"), lambda p: 64 <= p <= 4 * KIB),
    ("pieces", "mpich", "... by ROMIO over the mount", 1.3, ("automatic", "mount automatic"), lambda p: 64 <= p <= 4 * KIB),
    ("pieces", "mpich", "... by ROMIO over preload", 1.3, ("automatic", "preload automatic"), lambda p: 64 <= p <= 4 * KIB),
    ("pieces", "openmpi", "collective, pieces of 64 B, by OMPIO over the mount", 20, ("automatic", "mount automatic"), lambda p: p == 64),
    ("pieces", "openmpi", "... by OMPIO over preload", 20, ("automatic", "preload automatic"), lambda p: p == 64),
    ("pieces", None, "the automatic choice, of the better way", 0.9, ("automatic", better), lambda p: True),
    ("btio", None, "BTIO, of the contiguous peak", 0.6, ("automatic", "contiguous"), lambda p: True),
    ("btio", None, "BTIO, of native list calls", 0.92, ("automatic", "native"), lambda p: True),
    ("btio", None, "... of native list calls and the messages that agree", 0.92, ("automatic", "agreed"), lambda p: True),
    ("arrays", None, "arrays by HDF5, NetCDF, PnetCDF, by MPI's own over the mount", None, (None, "mount"), lambda p: True),
)
SMALL_US = 1.0


def value(speeds, column, read):
    if callable(column):
        return column(speeds, read)
    if column in (None, "mount"):  # arrays: the way is part of the point
        column = next((c for c in speeds if c.startswith("mount ") == (column == "mount") and not c.startswith("own ")), None)
    return speeds[column][read] if column in speeds else None


def ratios(cells, part, mpi, columns, counts):
    """(ratio, where it is), each cell and direction that has both columns."""
    for cell in cells:
        if cell["part"] != part or cell["mpi"] != mpi or not counts(cell["point"]):
            continue
        for read, way in enumerate(("written", "read")):
            a, b = (value(cell["speeds"], column, read) for column in columns)
            if a is not None and b is not None:
                yield a / b, f"{way}, {cell['ranks']} ranks, {cell['point']}"


def rows(cells):
    """One for each bar that has figures: what, goal, the worst and the median figure, where the worst is, and whether the goal is met."""
    told = []
    for mpi in dict.fromkeys(cell["mpi"] for cell in cells):
        for part, only, what, goal, columns, counts in RATIOS:
            found = sorted(ratios(cells, part, mpi, columns, counts), key=lambda r: r[0]) if only in (None, mpi) else []
            if found:
                told.append(dict(mpi=mpi, what=what, goal=goal, worst=found[0][0], median=found[len(found) // 2][0], where=found[0][1],
                                 met=None if goal is None else found[0][0] >= goal, good=sum(goal is None or r[0] >= goal for r in found), of=len(found)))
        small = [(1e6 * (cell["seconds"]["independent"][read] - cell["seconds"]["native"][read]), f"{way}, {cell['point']} bytes")
                 for cell in cells if cell["part"] == "small" and cell["mpi"] == mpi for read, way in enumerate(("written", "read"))]
        if small:
            worst = max(small)
            told.append(dict(mpi=mpi, what="small calls: us more than the native call", goal=SMALL_US, worst=worst[0], median=sorted(small)[len(small) // 2][0],
                             where=worst[1], met=worst[0] <= SMALL_US, good=sum(s[0] <= SMALL_US for s in small), of=len(small)))
    return told


def text(cells):
    lines = ["", "The goals: the worst cell of each, the median, where the worst is, and how many cells meet it"]
    for row in rows(cells):
        goal = "-" if row["goal"] is None else f"{row['goal']:g}"
        met = "" if row["met"] is None else "met" if row["met"] else "missed"
        lines.append(f"{row['mpi']:>8}  {row['what']:<62}{goal:>6}{row['worst']:>8.2f}{row['median']:>8.2f}  {met:<7}{row['good']:>3} of {row['of']:<3} {row['where']}")
    return "\n".join(lines)
