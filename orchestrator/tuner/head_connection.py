"""A connection to the head of a Ray cluster that tells at once when the head's control store (GCS) ends."""

import socket
from contextlib import suppress

CONNECT_SECONDS = 1.0
"""Seconds to wait for the head to take a connection."""


class HeadConnection:
    """One TCP connection at a time, over which nothing is sent.

    The operating system of the head closes the connection when the control store ends. A head that falls silent,
    e.g. because a cable is cut, leaves the connection open. The control store itself closes idle connections, so the
    connection is renewed every few seconds.

    Args:
        address: ``host:port`` of the head.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = host.strip("[]"), int(port)
        self._socket: socket.socket | None = None

    def renew(self) -> OSError | None:
        """Connect anew; return the error if the head takes no connection, else ``None``."""
        self.close()
        try:
            self._socket = socket.create_connection(self._place, timeout=CONNECT_SECONDS)
        except OSError as error:
            return error
        self._socket.setblocking(False)
        return None

    def is_closed(self) -> bool:
        """Say whether the head has closed the connection since ``renew``; ``False`` without a connection."""
        if self._socket is None:
            return False
        try:
            # The control store sends bytes first, which are dropped.
            while self._socket.recv(4096):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
        self._socket = None
