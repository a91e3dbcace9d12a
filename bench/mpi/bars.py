# SPDX-License-Identifier: Apache-2.0
"""The goals of MPI-IO on Spate, and how the cells of mpi.py meet them. The worst cell counts for each goal."""

KIB = 1 << 10


def better(speeds, read):
    both = [speeds[way][read] for way in ("disable", "enable") if way in speeds]
    return max(both) if len(both) == 2 else None


# Part, MPI or None for each, what is printed, goal, (numerator, denominator: a column or a function), the points that
# count.
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
    """Returns (ratio, cell, the two speeds) for each cell and direction that has both columns."""
    for cell in cells:
        if cell["part"] != part or cell["mpi"] != mpi or not counts(cell["point"]):
            continue
        for read, way in enumerate(("written", "read")):
            a, b = (value(cell["speeds"], column, read) for column in columns)
            if a is not None and b is not None:
                yield a / b, f"{way}, {cell['ranks']} ranks, {cell['point']}", f"{a:.0f} by {b:.0f} MiB/s"


def rows(cells):
    """Returns one row for each bar of the measured parts: what, goal, the worst and the median figure, the two speeds
    of the worst, its cell, and whether the goal is met. `of` is 0 if there are no figures because a column is empty."""
    told = []
    measured = {(cell["mpi"], cell["part"]) for cell in cells}
    for mpi in dict.fromkeys(cell["mpi"] for cell in cells):
        for part, only, what, goal, columns, counts in RATIOS:
            if only not in (None, mpi) or (mpi, part) not in measured:
                continue
            found = sorted(ratios(cells, part, mpi, columns, counts), key=lambda r: r[0])
            row = dict(mpi=mpi, what=what, goal=goal, met=None, good=sum(goal is None or r[0] >= goal for r in found), of=len(found))
            if found:
                row.update(worst=found[0][0], median=found[len(found) // 2][0], where=found[0][1], speeds=found[0][2],
                           met=None if goal is None else found[0][0] >= goal)
            told.append(row)
        small = [(1e6 * (cell["seconds"]["independent"][read] - cell["seconds"]["native"][read]), f"{way}, {cell['point']} bytes",
                  f"{1e6 * cell['seconds']['independent'][read]:.1f} by {1e6 * cell['seconds']['native'][read]:.1f} us")
                 for cell in cells if cell["part"] == "small" and cell["mpi"] == mpi and {"independent", "native"} <= cell["seconds"].keys()
                 for read, way in enumerate(("written", "read"))]
        if small:
            worst = max(small)
            told.append(dict(mpi=mpi, what="small calls: us more than the native call", goal=SMALL_US, worst=worst[0], median=sorted(small)[len(small) // 2][0],
                             where=worst[1], speeds=worst[2], met=worst[0] <= SMALL_US, good=sum(s[0] <= SMALL_US for s in small), of=len(small)))
    return told


def text(cells):
    lines = ["", "The goals: the worst cell of each, the median, how many cells meet it, what the worst has beside its reference, and where it is"]
    for row in rows(cells):
        goal = "-" if row["goal"] is None else f"{row['goal']:g}"
        met = "" if row["met"] is None else "met" if row["met"] else "missed"
        if row["of"] == 0:
            lines.append(f"{row['mpi']:>8}  {row['what']:<62}{goal:>6}  not measured: a column is empty")
            continue
        lines.append(f"{row['mpi']:>8}  {row['what']:<62}{goal:>6}{row['worst']:>8.2f}{row['median']:>8.2f}  {met:<7}{row['good']:>3} of {row['of']:<3} "
                     f"{row['speeds']:<24} {row['where']}")
    return "\n".join(lines)
