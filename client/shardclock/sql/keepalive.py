"""Probe the server's host from the client's end of a connection, as the server probes the client's host."""

import socket
from contextlib import suppress
from typing import Any

# The consumer's session sets the same keepalive values on the server's side. Options that the operating system lacks
# are skipped.
OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 9_000}


def keep_alive(connection: Any) -> None:
    """Set up a driver's connection so that it fails about ten seconds after the server's host has vanished.

    By default the operating system waits two hours for an answer, and a program without an event loop would block.

    shape:  a `connection` without `fileno`, or on a Unix socket, stays unchanged
    """
    if not hasattr(connection, "fileno"):
        return
    # A copy of the file descriptor, because the close of the copy does not close the connection.
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy, suppress(OSError):
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in OPTIONS.items():
            if hasattr(socket, name):
                copy.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
