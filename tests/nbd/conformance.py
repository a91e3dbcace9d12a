#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds an NBD server against the MUST and SHOULD of the protocol (doc/proto.md of the nbd project).

  conformance.py [--write] [--list] HOST:PORT[/EXPORT] | unix:PATH[/EXPORT after a second colon]

  --write   the export may be overwritten: the checks of WRITE, TRIM and WRITE_ZEROES are run, too
  --list    only print what is checked

Each check is a connection of its own. Exit code 1 when a MUST is broken; a SHOULD that is not followed is only printed,
but for --strict. A server that does not offer something (structured replies, FUA, ...) is not asked for it.
"""
import argparse
import struct
import sys

import conformance_options  # noqa: F401: these three declare the checks, in this order
import conformance_transmission  # noqa: F401
import conformance_writing  # noqa: F401
from conformance_check import CHECKS, Server, Skip
from nbd_wire import Closed, Violation


def parse_address(where):
    if where.startswith("unix:"):
        path, _, export = where[5:].partition(":")
        return path, export.lstrip("/")
    address, _, export = where.partition("/")
    host, _, port = address.rpartition(":")
    return (host or "127.0.0.1", int(port)), export


def run_one(server, function):
    try:
        function(server)
        return "passed", ""
    except Skip as e:
        return "skipped", str(e)
    except (Violation, AssertionError) as e:
        return "FAILED", str(e)
    except Closed:
        return "FAILED", "the server closed the connection"
    except (OSError, struct.error) as e:
        return "FAILED", "%s: %s" % (type(e).__name__, e)


def run(address, export, write=False, strict=False, out=sys.stdout):
    """Runs all checks. Returns whether the server passed."""
    counts = {"passed": 0, "skipped": 0, "FAILED": 0}
    broken = 0
    for level, what, writes, function in CHECKS:
        if writes and not write:
            continue
        outcome, why = run_one(Server(address, export), function)
        counts[outcome] += 1
        broken += outcome == "FAILED" and (strict or level == "MUST")
        print("%-7s %-6s %s: %s%s" % (outcome, level, function.__name__, what, why and " [" + why + "]"), file=out)
    print("%(passed)d passed, %(skipped)d skipped, %(FAILED)d failed" % counts, file=out)
    return broken == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--strict", action="store_true", help="a SHOULD that is not followed is a failure, too")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("server", nargs="?")
    arguments = parser.parse_args()
    if arguments.list:
        for level, what, writes, function in CHECKS:
            print("%-6s %s%s: %s" % (level, function.__name__, " (writes)" if writes else "", what))
        return 0
    if arguments.server is None:
        parser.error("which server?")
    address, export = parse_address(arguments.server)
    return 0 if run(address, export, arguments.write, arguments.strict) else 1


if __name__ == "__main__":
    sys.exit(main())
