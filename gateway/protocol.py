"""HTTP as the server speaks it, with bounds on what comes before a body: its size, and how long it may take.

uvicorn bounds neither: a header that never ends would fill the memory, and be copied with each piece.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 65_536  # the request line and all headers
HEAD_S = 10.0  # from a connection's begin, or from a request's first byte, to the end of its headers
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Close a connection whose request line and headers are too large, or do not end."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._head_bytes = 0
        self._in_head = True
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for a first request."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers are too large already."""
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self._ends_within(data):
                self.transport.write(TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to wait for the headers' end."""
        super().on_message_begin()
        if not self._in_head:
            self._head_bytes = 0
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Have the headers."""
        self._in_head = False
        self._expect_nothing()
        super().on_headers_complete()

    def _ends_within(self, data: bytes) -> bool:
        """Say whether the headers end in this piece, and only the begin of a body makes it long."""
        end = data.find(b"\r\n\r\n")
        return end >= 0 and self._head_bytes - len(data) + end <= HEAD_BYTES_MAX

    def _expect_head(self) -> None:
        self._in_head = True
        self._expect_nothing()
        self._late = self.loop.call_later(HEAD_S, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
