# SPDX-License-Identifier: Apache-2.0
"""Measures series over points by turns, so that other load on the machine affects all alike."""
import sys

from bed import median


def measure(title, points, series, runs):
    """Returns {name: [medians by point]}. series: {name: function of a point that returns a row of figures, or None if
    it cannot be measured}."""
    found = {name: [] for name in series}
    for point in points:
        print(title, point, "...", file=sys.stderr, flush=True)
        rows = {name: [] for name in series}
        for _ in range(runs):
            for name, one in series.items():
                rows[name].append(one(point))
        for name, told in rows.items():
            found[name].append(median(told))
    return found


def table(title, unit, x, points, found, key, scale=1):
    """Formats one figure of the result of measure(). Series that lack the figure are left out."""
    series = {name: [row and row.get(key) for row in rows] for name, rows in found.items()}
    series = {name: [value if value is None else value * scale for value in values] for name, values in series.items()
              if any(value is not None for value in values)}
    return {"title": title, "unit": unit, "x": x, "points": [str(point) for point in points], "series": series}
