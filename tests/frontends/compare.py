# SPDX-License-Identifier: Apache-2.0
"""compare.py FRONTEND ORACLE LINES: line by line; says how many were compared, and shows the first that differ."""
import itertools
import sys

name, oracle, lines = sys.argv[1:]
with open(oracle, errors="surrogateescape") as wanted, open(lines, errors="surrogateescape") as got:
    pairs = list(itertools.zip_longest(wanted, got, fillvalue="nothing\n"))
wrong = [(w, g) for w, g in pairs if w != g]
for w, g in wrong[:20]:
    print("%s\n  ext4: %s\n  is:   %s" % (name, ascii(w.rstrip()), ascii(g.rstrip())))
print("%s: %d calls compared, %d differ" % (name, len(pairs), len(wrong)))
sys.exit(1 if wrong or not pairs else 0)
