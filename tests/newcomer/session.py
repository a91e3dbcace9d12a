#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The picture of a first session, docs/pictures/first-session.svg, shows what the commands print today, but for numbers.
  session.py            runs the commands and compares
  session.py --draw     draws the picture anew"""
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, SPATE, check, skip  # noqa: E402

PICTURE = os.environ["SPATE_SOURCE"] + "/docs/pictures/first-session.svg"
HOME = "/home/me"  # in the picture
COMMANDS = [
    "spate up",
    "spate cp -r /usr/include/linux spate:/linux",
    "spate df",
    "spate mount -p ~/data",
    "ls ~/data",
    "spate explain spate:/linux/stat.h",
    "spate umount ~/data",
    "spate down",
]
COLUMNS, LINE, SIZE, EDGE = 100, 19, 13, 16
WIDTH = 2 * EDGE + int(COLUMNS * SIZE * 0.602)


def typed():
    """Runs the commands with a home of their own. Returns the lines of the terminal; a command's line begins with "$ "."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="spate-test-") as home:
        env = dict(os.environ, HOME=home, XDG_STATE_HOME=home + "/state", PATH=BIN + ":" + os.environ["PATH"], LC_ALL="C.UTF-8")
        env.pop("SPATE_FS", None)
        try:
            for command in COMMANDS:
                done = subprocess.run(["sh", "-c", command], env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=120)
                check(done.returncode == 0, "%s: exit %d: %s" % (command, done.returncode, done.stdout))
                lines += ["$ " + command, *done.stdout.replace(home, HOME).splitlines()]
        finally:
            for words in (["umount", home + "/data"], ["down", "--dir", home + "/.local/share/spate"]):
                subprocess.run([SPATE, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    return lines


def drawn(lines):
    wrapped = [part for line in lines for part in (textwrap.wrap(line, COLUMNS) if len(line) > COLUMNS else [line])]
    height = 2 * EDGE + LINE * len(wrapped)
    rows = []
    for number, line in enumerate(wrapped):
        kind = ' class="typed"' if line.startswith("$ ") else ""
        rows.append('<text x="%d" y="%d"%s>%s</text>' % (EDGE, EDGE + LINE * number + SIZE, kind, html.escape(line, quote=False)))
    return """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="A terminal: a first session with Spate">
<style>text { font: %dpx ui-monospace, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre; } .typed { fill: #7ee787; font-weight: bold; }</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
%s
</svg>
""" % (WIDTH, height, SIZE, "\n".join(rows))


def shown():
    """The lines of the picture."""
    with open(PICTURE, encoding="utf-8") as file:
        return [html.unescape(text) for text in re.findall(r"<text [^>]*>(.*)</text>", file.read())]


def without_numbers(lines):
    """Numbers, units, blanks and the breaks of long lines differ from machine to machine."""
    return re.sub(r"\s+", "", re.sub(r"[0-9][0-9.,]*\s*([KMGTP]iB|B\b)?", "#", " ".join(lines)))


def main():
    if not os.path.exists("/dev/fuse") or not shutil.which("fusermount3"):
        skip("needs /dev/fuse and fusermount3")
    lines = typed()
    if "--draw" in sys.argv:
        with open(PICTURE, "w", encoding="utf-8") as file:
            file.write(drawn(lines))
        return
    now, then = without_numbers(lines), without_numbers(shown())
    check(now == then, "docs/pictures/first-session.svg shows another session (session.py --draw): now %s, in the picture %s" % (now, then))


main()
