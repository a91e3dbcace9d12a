# SPDX-License-Identifier: Apache-2.0
"""How conformance.py declares a check, and the Server that each check connects to."""
import os
import struct

from nbd_wire import *  # noqa: F403

CHECKS = []


class Skip(Exception):
    """Raised when the server does not offer the feature that this check tests."""


def check(level, what, write=False):
    """Declares a check: it raises Violation, Closed or AssertionError when the server breaks it."""
    def declare(function):
        CHECKS.append((level, what, write, function))
        return function
    return declare


must, should = (lambda what, **more: check("MUST", what, **more)), (lambda what, **more: check("SHOULD", what, **more))


class Server:
    def __init__(self, address, export):
        self.address, self.export = address, export

    def connect(self, **more):
        return Connection(self.address, **more)

    def serve(self, structured=True, contexts=()):
        """Opens a connection and enters the transmission phase."""
        c = self.connect()
        if structured and not c.structured_reply():
            raise Skip("no structured replies")
        if contexts:
            replies = c.option(OPT["SET_META_CONTEXT"], context_data(self.export, *contexts))
            if replies[0][0] != META_CONTEXT:
                raise Skip("no metadata contexts")
            c.context = struct.unpack(">I", replies[0][1][:4])[0]
        return c.go(self.export)

    def offers(self, c, flag, what):
        if not c.flags & flag:
            raise Skip("does not offer " + what)


def equal(got, wanted, what):
    if got != wanted:
        raise Violation("%s: %r, not %r" % (what, got, wanted))


def every_name(s):
    """Skips the check if the server accepts every export name: some servers serve one export under any name."""
    with s.connect() as c:
        if c.option(OPT["INFO"], go_data("no such export, %d" % os.getpid()))[-1][0] == ACK:
            raise Skip("every name is an export")


def alive(c):
    """Checks that the connection still works."""
    c.read(0, 1)
