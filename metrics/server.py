"""Serve the exporter's pages: `/metrics`, `/healthz`, `/readyz`."""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from shardclock_server.metrics.refusals import PortTaken

TEXT = "text/plain; charset=utf-8"
REQUEST_S = 10.0  # requests have a timeout, because a client that sends nothing would block a thread for ever
CLOSE_S = 0.1  # the interval between two checks for a stop


@dataclass(frozen=True)
class Pages:
    """The content of the pages; `unhealthy` and `unready` list the faults."""

    registry: CollectorRegistry
    unhealthy: Callable[[], list[str]]
    unready: Callable[[], list[str]]


class MetricsServer:
    """Serve the pages in a separate thread."""

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        """Listen on a port.

        errors:  PortTaken  another process listens on the port, or this process may not use it
        """
        try:
            self._server = _Server((host, port), pages)
        except OSError as error:
            raise PortTaken(
                f"the metrics port {port} of {host} can't be opened ({error.strerror}): "
                "set SHARDCLOCK_METRICS_PORT to a free port, or to 0 for any free port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(CLOSE_S,), name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Return the URL of the server, without a path."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_port = False  # the port is not shared, because a second exporter would get some of the requests

    def __init__(self, address: tuple[str, int], pages: Pages) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self.pages = pages
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's signature
        """Log one line instead of a traceback, because most errors are clients that close the connection."""
        error = sys.exception()
        structlog.get_logger().warning("a page was not served", error=f"{type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    server: _Server

    def do_GET(self) -> None:
        pages = self.server.pages
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, content_type, encode(pages.registry))
        elif path == "/healthz":
            self._judge(pages.unhealthy())
        elif path == "/readyz":
            self._judge(pages.unready())
        else:
            self._answer(HTTPStatus.NOT_FOUND, TEXT, b"/metrics, /healthz and /readyz are here\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Don't log requests, because Prometheus sends a request every few seconds."""

    def _judge(self, faults: list[str]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK
        self._answer(status, TEXT, "".join(f"{line}\n" for line in faults or ["ok"]).encode())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
