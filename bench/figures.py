# SPDX-License-Identifier: Apache-2.0
"""Tables of several series over the same points, as text. bench/draw.py draws them.

A result: {"title", "unit", "x": what the points are, "points": [text], "series": {name: [number or None]}}, and where it matters
  "panels": {title: [names of series]}   drawn beside each other, each with an axis of its own
  "log": true                            a logarithmic axis of the values
"""


def text(result):
    about = ", ".join(part for part in (result["unit"], result["x"] and "by " + result["x"]) if part)
    lines = ["", result["title"] + (" (%s)" % about if about else "")]
    widths = [max(10, len(str(point)) + 2) for point in result["points"]]
    lines.append("%-30s" % "" + "".join("%*s" % (w, point) for w, point in zip(widths, result["points"])))
    for name, values in result["series"].items():
        lines.append("%-30s" % name + "".join("%*s" % (w, "-" if v is None else "%.3g" % v) for w, v in zip(widths, values)))
    return "\n".join(lines)
