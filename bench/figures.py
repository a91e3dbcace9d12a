# SPDX-License-Identifier: Apache-2.0
"""Tables of several series over the same points, as text. bench/draw.py draws them.

A result: {"title", "unit", "x": what the points are, "points": [text], "series": {name: [number or None]}}, and where it matters
  "panels": {title: [names of series]}   drawn beside each other, each with an axis of its own
  "log": true                            a logarithmic axis of the values
"""


def text(result):
    lines = ["", "%s (%s, by %s)" % (result["title"], result["unit"], result["x"])]
    lines.append("%-30s" % "" + "".join("%10s" % point for point in result["points"]))
    for name, values in result["series"].items():
        lines.append("%-30s" % name + "".join("%10s" % ("-" if v is None else "%.3g" % v) for v in values))
    return "\n".join(lines)
