"""Limit the headers of a request, and the time for a request and for reading its response.

uvicorn itself sets no such limits. Endless headers or trailers would fill the memory. A request without an end, or a
client that stops reading, would use its connection for ever.
"""

import asyncio
import sys
from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shardclock_server.gateway.connections import Connections
from shardclock_server.gateway.requests import malformed
from shardclock_server.gateway.requests.callers import TENANT
from shardclock_server.gateway.requests.problems import RETRY_AFTER_S, unavailable

HEAD_BYTES_MAX = 65_536  # The limit of the request line with all headers, and of the bytes between two body pieces.
HEAD_S = 10.0  # The time from the connection's start, or from a request's first byte, to the end of its headers.
REST_S = 10.0  # The time for the rest of an answered request; an immediate close could cut off the response.
UNREAD_S = 30.0  # A client must read 16 KiB of its responses in this time, or all remaining bytes if fewer remain.
READ_LEAST_BYTES = 16_384
UNPROVEN_S = 10.0  # the longest pause between two requests, if no request of the connection was authenticated
NO_ROOM = unavailable("this gateway has reached its limit of connections; connect again later").answer()
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"retry-after: %d\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
    % (RETRY_AFTER_S, len(NO_ROOM.body), bytes(NO_ROOM.body))
)
FRAMING = (b"content-length", b"transfer-encoding")  # the headers that define the end of a body
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Close a connection if headers are too large, a request does not end, or the client stops reading."""

    def __init__(self, *given: Any, connections: Connections, **more: Any) -> None:
        super().__init__(*given, **more)
        self._all = connections
        self._is_proven = False  # whether a request was authenticated
        self._keep_alive_s = self.timeout_keep_alive
        self.timeout_keep_alive = min(self.timeout_keep_alive, UNPROVEN_S)  # type: ignore[assignment] # it is added
        self._bare_bytes = 0  # The bytes received since the last piece of a body, or since the end of a request.
        self._in_body = False  # True from the end of the headers to the end of the body and its trailers.
        self._is_answered = True  # Whether the last request has its response.
        self._piece = b""  # The bytes that the parser is parsing.
        self._rest = b""  # The bytes after the headers of a request with `Upgrade`, which the parser has not parsed.
        self._is_continued = False  # Whether the next headers only continue the request with `Upgrade`.
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Limit the time to the first request; close the connection if the gateway has too many connections."""
        super().connection_made(transport)
        if self._all.admit(self, self.client[0] if self.client else ""):
            self._expect_within(HEAD_S)
        else:
            transport.write(FULL)
            transport.close()

    def end(self) -> None:
        """Close the connection without delay, because a new connection replaces this one."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts of the connection."""
        self._all.leave(self)
        self._expect_nothing()
        self._be_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes; if the headers or trailers are too large, close the connection."""
        self._bare_bytes += len(data)
        if not self._in_body and self._bare_bytes > HEAD_BYTES_MAX and not self._ends_within(data):
            self._refuse()
            return
        self._rest = data
        while self._rest:
            self._piece, self._rest = self._rest, b""
            super().data_received(self._piece)
        self._piece = b""
        if self._in_body and self._bare_bytes > HEAD_BYTES_MAX:
            self.transport.close()
        elif self._is_idle:
            self._keep_alive()

    def send_400_response(self, msg: str) -> None:
        """Answer a parser error with a problem, unless the client would take it for the response to another request."""
        is_in_body = self._in_body and not (self._is_answered or self.pipeline or self.cycle.response_started)
        if self._is_answered or is_in_body:
            reason = sys.exception()
            self.transport.write(malformed.answer_of(self._piece, msg if reason is None else str(reason)))
        if is_in_body:  # this is the response to the request, so drop the response of the application
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Parse the body of a request with `Upgrade`, because a server may ignore this header (RFC 9110 7.8).

        The parser stops after the headers, and would parse the body as a new request. The gateway therefore inserts a
        request line and headers before the body. For example, Java's HTTP client sends `Upgrade: h2c` with its first
        request.
        """
        upgrade = sys.exception()
        assert isinstance(upgrade, HttpParserUpgrade)
        self._rest = self._piece[upgrade.args[0] :]
        if framing := self._framing_of_upgrade:
            if not self.parser.should_keep_alive():  # with `Connection: close`, this parser would drop the body
                framing += b"Connection: close\r\n"
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            self._rest = b"POST / HTTP/1.1\r\n" + framing + b"\r\n" + self._rest
            self._is_continued = True

    def on_message_begin(self) -> None:
        """Limit the time until the headers end."""
        super().on_message_begin()
        if self._late is None:
            self._expect_within(HEAD_S)

    def on_headers_complete(self) -> None:
        """Record that the headers have ended."""
        self._expect_nothing()
        if self._is_continued:
            self._is_continued = False
            return
        super().on_headers_complete()
        self._in_body = True
        self._is_answered = False
        self._bare_bytes = 0
        self._all.begin(self)
        self.headers = []  # for trailers, which the parser reports as headers; the application must not see them

    def on_chunk_header(self) -> None:
        """Record that a chunk of the body starts."""
        self._bare_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Record that a piece of the body has arrived."""
        self._bare_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request has ended; the body of a request with `Upgrade` has not begun yet."""
        if self._framing_of_upgrade:
            return
        self._in_body = False
        self._bare_bytes = 0
        self._expect_nothing()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Limit the time until the request ends, if the response has ended earlier."""
        if not self._is_proven and TENANT in self.cycle.scope["state"]:
            self._is_proven = True
            self.timeout_keep_alive = self._keep_alive_s
        super().on_response_complete()
        self._is_answered = self.cycle.response_complete  # False if the response was for an earlier request
        if self._is_answered:
            self._all.rest(self, is_proven=self._is_proven)
        if self._in_body and self._is_answered:
            self._expect_within(REST_S)

    def pause_writing(self) -> None:
        """Limit the time for which the client reads nothing of the response."""
        super().pause_writing()
        self._expect_read()

    def resume_writing(self) -> None:
        """Remove the limit that `pause_writing` has set, because the client reads again."""
        self._be_read()
        super().resume_writing()

    @property
    def _framing_of_upgrade(self) -> bytes:
        """Return the headers that define the end of the body, if the request has `Upgrade` and a body."""
        if not self.parser.should_upgrade():
            return b""
        return b"".join(b"%b: %b\r\n" % header for header in self.scope["headers"] if header[0] in FRAMING)

    @property
    def _is_idle(self) -> bool:
        """Whether the last request is answered and no other request has started."""
        return self._is_answered and not self._in_body and self._late is None

    def _ends_within(self, data: bytes) -> bool:
        """Return whether the headers end in this piece, so that the rest of the piece is the body."""
        end = data.find(b"\r\n\r\n")
        return end >= 0 and self._bare_bytes - len(data) + end <= HEAD_BYTES_MAX

    def _refuse(self) -> None:
        if self._is_answered:  # otherwise the client would read this as the response to an earlier request
            self.transport.write(TOO_LARGE)
        self.transport.close()

    def _keep_alive(self) -> None:
        """Limit the time to the next request.

        Uvicorn's own limit is not enough, because each received byte cancels this limit, even if no request starts.
        """
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _expect_within(self, within_s: float) -> None:
        self._expect_nothing()
        self._late = self.loop.call_later(within_s, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _expect_read(self) -> None:
        self._be_read()
        self._unread = self.loop.call_later(UNREAD_S, self._end_unread, self.transport.get_write_buffer_size())

    def _end_unread(self, before_bytes: int) -> None:
        if self.transport.get_write_buffer_size() <= before_bytes - READ_LEAST_BYTES:
            self._expect_read()
        else:
            self.transport.abort()

    def _be_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
