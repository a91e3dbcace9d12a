# SPDX-License-Identifier: Apache-2.0
"""Tables of several series over the same points, as text and as drawings.

A result: {"title", "unit", "x": what the points are, "points": [text], "series": {name: [number or None]}}.
"""
COLORS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#ff8ab7", "#9c6b4e", "#97bbf5", "#888888"]
DASHES = ["", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 3"']


def text(result):
    lines = ["", "%s (%s, by %s)" % (result["title"], result["unit"], result["x"])]
    lines.append("%-30s" % "" + "".join("%10s" % point for point in result["points"]))
    for name, values in result["series"].items():
        lines.append("%-30s" % name + "".join("%10s" % ("-" if v is None else "%.3g" % v) for v in values))
    return "\n".join(lines)


def svg(result):
    width, left, top, pw, ph = 860, 60, 40, 520, 320
    height = max(420, top + 40 + 20 * len(result["series"]))
    most = max([v for values in result["series"].values() for v in values if v is not None], default=0) * 1.05 or 1
    step = pw / max(1, len(result["points"]) - 1)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (width, height),
           '<rect width="%d" height="%d" fill="white"/>' % (width, height),
           '<text x="%d" y="20" font-size="15">%s (%s, by %s)</text>' % (left, result["title"], result["unit"], result["x"]),
           '<path d="M%d %dV%dH%d" fill="none" stroke="black"/>' % (left, top, top + ph, left + pw)]
    for i in range(5):
        y = top + ph - ph * i / 4
        out.append('<text x="%d" y="%.0f" text-anchor="end">%.3g</text>' % (left - 6, y + 4, most * i / 4))
    for i, point in enumerate(result["points"]):
        out.append('<text x="%.0f" y="%d" text-anchor="middle">%s</text>' % (left + i * step, top + ph + 18, point))
    for n, (name, values) in enumerate(result["series"].items()):
        color, dash = COLORS[n % len(COLORS)], DASHES[n // len(COLORS) % len(DASHES)]
        at = ["%.1f,%.1f" % (left + i * step, top + ph - v / most * ph) for i, v in enumerate(values) if v is not None]
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>' % (" ".join(at), color, dash))
        out.append('<text x="%d" y="%d" fill="%s">%s</text>' % (left + pw + 20, top + 10 + 20 * n, color, name))
    return "\n".join(out + ["</svg>"]) + "\n"
