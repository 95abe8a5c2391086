"""Hold what one connection may say: an answer to each request, of bounded size, and nothing else.

aiohttp takes all that comes, also while no request is under way: an answer that nobody asked for then counts as the
answer to the next request (aio-libs/aiohttp#13656). And it skips interim answers (1xx) without end. Both are parsed as
fast as they come, and keep the loop from everything else. An answer that its parser refuses has a status all the same:
`odd_heads` reads it, and the connection ends there.
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

from shardclock_server.webhooks.odd_heads import (
    END,
    END_BYTES,
    SWITCHING,
    NoAnswer,
    OddHead,
    read_cut_head,
    read_odd_head,
)

SLICE_BYTES = 1_024  # parsed at once: some 60 of the shortest answers, which takes less than a millisecond
INTERIM_MAX = 10  # servers send one or two
HEAD_BYTES_MAX = 131_072  # of the final head and the interim ones before it; most servers send less than 1 KiB
BODY_BYTES_MAX = 16_384  # so little that aiohttp never pauses the parser, which would parse the rest at once


class NotHttp(aiohttp.ClientError):
    """Refuse bytes that are no answer of HTTP, or an answer with a head that does not end."""


class Connector(aiohttp.TCPConnector):
    """Make connections that are bounded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = functools.partial(BoundedConnection, loop=self._loop)  # type: ignore[assignment]


class TolerantParser:
    """Keep to itself that aiohttp's parser fails: all answers in the piece at which it fails would be lost."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self.has_failed = False

    def feed_data(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """Parse a piece, as aiohttp expects it."""
        try:
            return self._parser.feed_data(data)  # type: ignore[no-any-return] # a tuple
        except Exception:  # noqa: BLE001 - `read_odd_head` decides about each failure
            self.has_failed = True
            return (), False, b""

    def feed_eof(self) -> Any:
        """End the body, if it lasts until the connection ends."""
        return None if self.has_failed else self._parser.feed_eof()

    def pause_reading(self) -> None:
        """Parse no further for now."""
        self._parser.pause_reading()


class BoundedConnection(ResponseHandler):
    """Pass one answer on for each request, and close the connection at what comes beyond."""

    _tolerant: TolerantParser | None = None
    _interim = 0
    _head = bytearray()  # with the interim heads before it
    _body_bytes = 0
    _is_final = False  # the final head has come
    _is_surplus = False  # and another one behind it

    def is_connected(self) -> bool:
        """Say whether a request may be sent on this connection.

        If something can be read before the request is sent, it is no answer to the request: the endpoint has closed the
        connection, or has sent an answer that nobody asked for, and the event loop has not read that yet.
        """
        return super().is_connected() and not (self._is_final and self._is_readable())

    def set_response_params(self, **params: Any) -> None:
        """Expect the answer to a request."""
        self._interim = self._body_bytes = 0
        self._head = bytearray()
        self._is_final = self._is_surplus = False
        super().set_response_params(**params)
        self._tolerant = TolerantParser(self._parser)
        self._parser = self._tolerant  # type: ignore[assignment] # aiohttp calls the three methods that it has

    def data_received(self, data: bytes) -> None:
        """Parse what came, in slices, up to the answer's end or its bounds."""
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
        """Pass an answer's head on, if it is still expected."""
        status = data[0].code
        if self._is_final:
            self._is_surplus = True
        elif 100 <= status < 200 and status != SWITCHING:
            self._interim += 1  # nobody waits for a 100: requests have no `expect`
        elif self._interim <= INTERIM_MAX:
            self._is_final = True
            super().feed_data(data, size)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End. A head that is cut off is an answer if its status line is whole and the receiver closed the connection.

        Another head that the parser refused is none, and the request is not sent again at once.
        """
        if not self._is_final and self.exception() is None:
            if exc is None:
                self._read_cut()
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
            self._read_odd()
        if not self._is_final and (self._interim > INTERIM_MAX or len(self._head) > HEAD_BYTES_MAX):
            self._refuse()
        elif self._is_surplus or (self._is_final and self._has_failed):
            self._end()

    @property
    def _has_failed(self) -> bool:
        return self._tolerant is not None and self._tolerant.has_failed

    def _lacks_end(self, piece: bytes) -> bool:
        """Say whether no head ends in the piece that came last: each one would else be read from its beginning."""
        return END.search(self._head, max(0, len(self._head) - len(piece) - END_BYTES)) is None

    def _read_odd(self) -> None:
        """Answer with the status of a head that the parser refuses, once its end has come."""
        try:
            head = read_odd_head(bytes(self._head), interim_max=INTERIM_MAX)
        except NoAnswer:
            self._refuse()
            return
        if head is not None:
            self._payload = self._answer(head)

    def _read_cut(self) -> None:
        """Answer with the status of a head that the end of the connection cuts off."""
        with contextlib.suppress(NoAnswer):
            if head := read_cut_head(bytes(self._head), interim_max=INTERIM_MAX):
                self._answer(head).feed_eof()

    def _answer(self, head: OddHead) -> StreamReader:
        self._is_final = True
        payload = StreamReader(self, BODY_BYTES_MAX, loop=self._loop)
        payload.feed_data(head.rest[: BODY_BYTES_MAX // 2])  # so little that it pauses nothing
        super().feed_data((_message_of(head), payload), 0)
        return payload

    def _refuse(self) -> None:
        self.set_exception(NotHttp())
        self._abort()

    def _end(self) -> None:
        """End the answer here, as if the rest had never come, and the connection."""
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


def _message_of(head: OddHead) -> RawResponseMessage:
    headers = CIMultiDictProxy(CIMultiDict(head.headers))
    return RawResponseMessage(HttpVersion11, head.status, "", headers, (), True, None, False, False)


def _readable(number: int) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return poll.poll(0)
