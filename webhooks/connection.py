"""Accept only one answer of limited size for each request on a connection.

aiohttp accepts all bytes at any time. It would take an answer that arrives without a request as the answer to the next
request (aio-libs/aiohttp#13656). It also skips interim answers (1xx) without a limit. It parses unsolicited and interim
answers as fast as they arrive, which blocks the event loop. An answer that aiohttp's parser refuses may
still have a status: `malformed_head` reads the status, and the sender closes the connection.
"""

import contextlib
import functools
import select
from collections.abc import Sequence
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpVersion11, RawResponseMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy

from shardclock_server.webhooks.malformed_head import (
    END,
    END_BYTES,
    SWITCHING,
    MalformedHead,
    NotHttpHead,
    read_malformed_head,
    read_truncated_head,
)

# The number of bytes to parse in one step, which takes less than a millisecond even for 60 minimal answers.
SLICE_BYTES = 1_024
INTERIM_MAX = 10  # The limit of interim answers; servers send one or two.
HEAD_BYTES_MAX = 131_072  # The limit of the final head and all interim heads; most servers send less than 1 KiB.
# The size is below the limit at which aiohttp pauses its parser, because a resumed parser would parse all remaining
# bytes in one step.
BODY_BYTES_MAX = 16_384


class NotHttp(aiohttp.ClientError):
    """Refuse bytes that are not an HTTP answer, or an answer with an unfinished head."""


class Connector(aiohttp.TCPConnector):
    """Create connections of the class `BoundedConnection`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = functools.partial(BoundedConnection, loop=self._loop)  # type: ignore[assignment]


class TolerantParser:
    """Hide a failure of aiohttp's parser from aiohttp, which would drop all answers in the same piece of data."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self.has_failed = False

    def feed_data(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """Parse a piece; return an empty result after a failure."""
        try:
            return self._parser.feed_data(data)  # type: ignore[no-any-return] # a tuple
        except Exception:  # noqa: BLE001 - `read_malformed_head` decides about each failure
            self.has_failed = True
            return (), False, b""

    def feed_eof(self) -> Any:
        """Report to the parser that the connection has ended, which also ends a body without a stated length."""
        return None if self.has_failed else self._parser.feed_eof()

    def pause_reading(self) -> None:
        """Pause the parser."""
        self._parser.pause_reading()


class BoundedConnection(ResponseHandler):
    """Accept one answer for each request, and close the connection if further bytes arrive."""

    _tolerant: TolerantParser | None = None
    _interim = 0
    _head = bytearray()  # the interim heads and the final head
    _body_bytes = 0
    _is_final = False  # The final head has arrived.
    _is_surplus = False  # Another head has arrived after the final head.

    def is_connected(self) -> bool:
        """Return whether a request may be sent on this connection.

        Bytes that are readable before the request is sent can't be the request's answer. Either the endpoint has closed
        the connection, or it has sent an unsolicited answer that the event loop has not read yet.
        """
        return super().is_connected() and not (self._is_final and self._is_readable())

    def set_response_params(self, **params: Any) -> None:
        """Prepare for the answer to a request."""
        self._interim = self._body_bytes = 0
        self._head = bytearray()
        self._is_final = self._is_surplus = False
        super().set_response_params(**params)
        self._tolerant = TolerantParser(self._parser)
        self._parser = self._tolerant  # type: ignore[assignment] # it has the three methods that aiohttp calls

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes in slices, up to the answer's end or its limits."""
        if self._parser is None or not data:
            super().data_received(data)
            return
        for start in range(0, len(data), SLICE_BYTES):
            if self.transport is None or self.transport.is_closing():
                return
            if self._has_ended:
                self._end()
                return
            self._take(data[start : start + SLICE_BYTES])

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Pass on the final head; count interim heads, and record that a surplus head has arrived."""
        status = data[0].code
        if self._is_final:
            self._is_surplus = True
        elif 100 <= status < 200 and status != SWITCHING:
            # Count status 100, too. No request has the header `expect`, so the endpoint has no reason for status 100.
            self._interim += 1
        elif self._interim <= INTERIM_MAX:
            self._is_final = True
            super().feed_data(data, size)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection.

        An incomplete head is an answer if its status line is complete and the receiver closed the connection. Any other
        head that the parser has refused is an error, and the request is not sent again on a new connection.
        """
        if not self._is_final and self.exception() is None:
            if exc is None:
                self._read_truncated()
            if self._has_failed and not self._is_final:
                self.set_exception(NotHttp())
        super().connection_lost(exc)

    @property
    def _has_ended(self) -> bool:
        over = self._is_surplus or self._body_bytes >= BODY_BYTES_MAX
        return self._is_final and (over or self._payload is None or self._payload.is_eof())

    def _take(self, piece: bytes) -> None:
        if self._is_final:
            self._body_bytes += len(piece)
        else:
            self._head += piece
        had_failed = self._has_failed
        super().data_received(piece)
        if not self._is_final and self._has_failed and not (had_failed and self._lacks_end(piece)):
            self._read_malformed()
        if not self._is_final and (self._interim > INTERIM_MAX or len(self._head) > HEAD_BYTES_MAX):
            self._refuse()
        elif self._is_surplus or (self._is_final and self._has_failed):
            self._end()

    @property
    def _has_failed(self) -> bool:
        return self._tolerant is not None and self._tolerant.has_failed

    def _lacks_end(self, piece: bytes) -> bool:
        """Return whether the head is still incomplete; search only the last piece for the end of the head."""
        return END.search(self._head, max(0, len(self._head) - len(piece) - END_BYTES)) is None

    def _read_malformed(self) -> None:
        """If the parser has refused a head, use its status as the answer as soon as the head is complete."""
        try:
            head = read_malformed_head(bytes(self._head), interim_max=INTERIM_MAX)
        except NotHttpHead:
            self._refuse()
            return
        if head is not None:
            self._payload = self._answer(head)

    def _read_truncated(self) -> None:
        """If the connection ended inside a head, use the status of the head as the answer."""
        with contextlib.suppress(NotHttpHead):
            if head := read_truncated_head(bytes(self._head), interim_max=INTERIM_MAX):
                self._answer(head).feed_eof()

    def _answer(self, head: MalformedHead) -> StreamReader:
        self._is_final = True
        payload = StreamReader(self, BODY_BYTES_MAX, loop=self._loop)
        payload.feed_data(head.rest[: BODY_BYTES_MAX // 2])  # half of the limit, so that the reader never pauses
        super().feed_data((_message_of(head), payload), 0)
        return payload

    def _refuse(self) -> None:
        self.set_exception(NotHttp())
        self._abort()

    def _end(self) -> None:
        """Finish the answer, drop the remaining bytes, and close the connection."""
        self.force_close()
        if self._payload is not None:
            self._payload.feed_eof()
            self._payload = None
        self._abort()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _is_readable(self) -> bool:
        assert self.transport is not None, "it is connected"
        return bool(_readable(self.transport.get_extra_info("socket").fileno()))


def _message_of(head: MalformedHead) -> RawResponseMessage:
    headers = CIMultiDictProxy(CIMultiDict(head.headers))
    return RawResponseMessage(HttpVersion11, head.status, "", headers, (), True, None, False, False)


def _readable(number: int) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return poll.poll(0)
