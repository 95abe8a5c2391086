"""A receiver of webhooks in a thread, for commands that send webhooks themselves."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Answering:
    """A receiver on loopback, with its received requests."""

    def __init__(self, status: int) -> None:
        self.got: list[tuple[dict[str, Any], bytes]] = []
        got = self.got

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                got.append((dict(self.headers), body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@contextmanager
def answering(status: int) -> Iterator[Answering]:
    """Listen, and answer each request with a status."""
    one = Answering(status)
    thread = threading.Thread(target=one.server.serve_forever)
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        thread.join()
        one.server.server_close()
