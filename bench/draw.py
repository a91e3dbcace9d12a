#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what the benches stored with --json, one SVG a figure. It needs python3-matplotlib, which is why it is a program of its
own and runs under Debian's python3.

  bench/run draw [--to FOLDER] [FILE.json ...]      without a file: bench/results/*.json to docs/pictures

Lines of Spate are full and coloured. The limit (a bare probe that does the same work) is a black dashed line, peers (other
programs that do the same) are grey and dotted.
"""
import argparse
import json
import os
import pathlib
import re
import sys
import tempfile

# matplotlib keeps settings and a list of fonts in the user's home unless it is given another folder.
SETTINGS = tempfile.TemporaryDirectory(prefix="spate-draw-")
os.environ.setdefault("MPLCONFIGDIR", SETTINGS.name)
import matplotlib  # noqa: E402 (after the choice of where it keeps its settings)

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402 (after the choice of what it draws with)

SOURCE = pathlib.Path(__file__).resolve().parent
# Text stays text, so that readers can search a drawing. The same figures always give the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "spate", "font.family": "sans-serif", "font.size": 9,
                            "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
                            "legend.frameon": False, "legend.fontsize": 8})
LIMIT = re.compile(r"^(sockets|bare |probe|sendfile|pread|O_DIRECT|fi_pingpong|nbd probe|alone)")
OURS = re.compile(r"^(bmi|spate|nbd spate|nbd, |tcp|shm|ofi|rdma|mount|preload|registering|copying|pin-down|registration|copies)")
COLORS = ["#1f5fc4", "#d1495b", "#2a9d5c", "#b8720a", "#7a4fb5", "#0f8b8d"]
MARKS = "osD^vP"
GREYS = ["#555555", "#777777", "#8a8a8a", "#a5a5a5"]


def size_text(value, _=None):
    """Formats a size: 1024 as 1K, 1048576 as 1M."""
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if value >= factor and value % (factor >> 3) == 0:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def number_of(point):
    """Returns a point as a number ("128K" is a size), or None if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)", point)
    return float(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[match[2]] if match else None


def styles(names):
    """Returns {name: keywords of plot()}."""
    ours, peers, limits, found = 0, 0, 0, {}
    for name in names:
        if LIMIT.search(name):
            found[name] = {"color": "black", "linestyle": ["--", "-.", (0, (1, 1))][limits % 3], "linewidth": 1.2, "zorder": 2}
            limits += 1
        elif OURS.search(name):
            found[name] = {"color": COLORS[ours % len(COLORS)], "marker": MARKS[ours % len(MARKS)], "markersize": 4, "linewidth": 1.8, "zorder": 4}
            ours += 1
        else:
            found[name] = {"color": GREYS[peers % len(GREYS)], "linestyle": ":", "marker": "x+12"[peers % 4], "markersize": 5, "linewidth": 1.4,
                           "zorder": 3}
            peers += 1
    return found


def lines(axes, result, names):
    at = [number_of(point) for point in result["points"]]
    for name, style in styles(names).items():
        # A series may lack points. Its line connects the points that exist.
        there = [(x, y) for x, y in zip(at, result["series"][name]) if y is not None]
        axes.plot([x for x, _ in there], [y for _, y in there], label=name, **style)
    if max(at) >= 32 * min(at) and all(x % 1024 == 0 for x in at):  # sizes of bulk data; small messages get a linear axis, as in the papers
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(ticker.FixedLocator(at if len(at) <= 8 else at[::2]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(size_text))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))


def bars(axes, result, names):
    points, style = result["points"], styles(names)
    width = 0.8 / len(names)
    for n, name in enumerate(names):
        values = result["series"][name]
        at = [i - 0.4 + (n + 0.5) * width for i in range(len(points))]
        limit = LIMIT.search(name)
        drawn = axes.bar(at, [v or 0 for v in values], width * 0.92, label=name, color="white" if limit else style[name]["color"],
                         edgecolor="black" if limit else "none", linestyle="--" if limit else "-", zorder=3)
        axes.bar_label(drawn, ["" if v is None else f"{v:.3g}" for v in values], fontsize=6, padding=1)
    axes.set_xticks(range(len(points)), points)
    axes.grid(axis="x", visible=False)


def finish(axes, result, title):
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(result["x"])
    axes.set_ylabel(result["unit"])
    if result.get("log"):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.17), ncols=2)


def figure(result):
    """Draws one result of figures.py."""
    panels = result.get("panels") or {"": list(result["series"])}
    drawn, places = pyplot.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.4), squeeze=False)
    numbers = [number_of(point) for point in result["points"]]
    many = len(numbers) > 1 and None not in numbers
    for axes, (title, names) in zip(places[0], panels.items()):
        (lines if many else bars)(axes, result, names)
        finish(axes, result, title)
    drawn.suptitle(result["title"], fontsize=11)
    return drawn


def pvfs(report):
    """Draws figures 5 and 6 of the PVFS paper: aggregate bandwidth over the number of clients, one line for each number
    of io servers."""
    link = report["link_bits_per_second"] / 8 * 1448 / 1514 / 1e6
    drawn, places = pyplot.subplots(1, 2, figsize=(10.4, 4.4), sharey=True)
    for axes, what, title in zip(places, ("read", "write"), ("(a) reads", "(b) writes")):
        limit = {"color": "black", "linestyle": "--", "linewidth": 0.8, "zorder": 2, "label": "what the links carry"}
        for n, servers in enumerate(sorted({row["servers"] for row in report["simulation"]})):
            rows = sorted((row for row in report["simulation"] if row["servers"] == servers), key=lambda row: row["clients"])
            color, most = COLORS[n % len(COLORS)], rows[-1]["clients"]
            axes.plot([0, servers, most], [0, servers * link, servers * link], **limit)
            limit["label"] = None
            axes.plot([row["clients"] for row in rows], [row[what] / 1e6 for row in rows], color=color, linewidth=1.8, zorder=3,
                      label=f"{servers} io server{'s' if servers > 1 else ''}")
            real = [row for row in report.get("real", []) if row["servers"] == servers]
            axes.plot([row["clients"] for row in real], [row[what] / 1e6 for row in real], "o", color=color, markerfacecolor="white", markersize=4,
                      zorder=4)
        axes.plot([], [], "o", color="black", markerfacecolor="white", markersize=4, label="real processes")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("clients")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(ticker.MultipleLocator(10))
    places[0].set_ylabel("MB/s, all clients together")
    places[0].yaxis.set_major_locator(ticker.MultipleLocator(50))
    places[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    drawn.suptitle("PVFS Figures 5 and 6: bandwidth over links of 100 Mb/s; lines are simulated", fontsize=11)
    return drawn


def figures_of(report, subject):
    """Returns {name: drawing} for the contents of a report of --json. `subject` begins each name."""
    if "simulation" in report:
        return {subject: pvfs(report)}
    results = report.get("figures", report)
    return {name if name.startswith(subject) else f"{subject}-{name}": figure(result)
            for name, result in results.items() if isinstance(result, dict) and "series" in result}


def main():
    parser = argparse.ArgumentParser(prog="run draw", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, default=SOURCE.parent / "docs" / "pictures")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for file in options.files or sorted((SOURCE / "results").glob("*.json")):
        subject = re.sub(r"^\d{4}-\d\d-\d\d-", "", file.stem)
        found = figures_of(json.loads(file.read_text(encoding="utf-8")), subject)
        if not found:
            print(f"{file} holds no figure", file=sys.stderr)
            return 1
        for name, drawn in found.items():
            drawn.savefig(options.to / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
            pyplot.close(drawn)
            print(options.to / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
