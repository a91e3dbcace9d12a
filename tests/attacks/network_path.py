# SPDX-License-Identifier: Apache-2.0
"""An attacker on the network path: it stands before a port, passes all data on, and flips a byte."""
import socket
import threading


class Path:
    """The network path to a port. It passes each connection on and flips the byte at `where` of the data that one
    connection carries to the `flips` side ("server", "client", or neither). `flipped` counts the changes."""

    def __init__(self, port, where):
        self.port, self.where, self.flips, self.flipped = port, where, None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def attack(self, side):
        self.flips, self.flipped = side, 0

    def worth(self, client, server):
        """Returns whether the attacker wants this connection. It may read some bytes from the client to find out, and
        passes them on afterwards."""
        return True

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", self.port))
            worth = self.worth(client, server)
            threading.Thread(target=self.carry, args=(client, server, worth and "server"), daemon=True).start()
            threading.Thread(target=self.carry, args=(server, client, worth and "client"), daemon=True).start()

    def carry(self, source, target, side):
        at = 0
        try:
            while data := bytearray(source.recv(65536)):
                if side and side == self.flips and at <= self.where < at + len(data):
                    data[self.where - at] ^= 1
                    self.flipped += 1
                target.sendall(data)
                at += len(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, target):
                end.close()
