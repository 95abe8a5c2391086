"""Hold what one connection may say: an answer to each request, of bounded size, and nothing else.

aiohttp takes all that comes, also while no request is under way: an answer that nobody asked for then counts as the
answer to the next request (aio-libs/aiohttp#13656). And it skips interim answers (1xx) without end. Both are parsed as
fast as they come, and keep the loop from everything else.
"""

import functools
import select
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

SLICE_BYTES = 1_024  # parsed at once: some 60 of the shortest answers, which takes less than a millisecond
INTERIM_MAX = 10  # servers send one or two
HEAD_BYTES_MAX = 65_536  # of the final head and the interim ones before it; most servers send less than 1 KiB
BODY_BYTES_MAX = 16_384  # so little that aiohttp never pauses the parser, which would parse the rest at once

SWITCHING = 101  # the one 1xx that is final


class EndlessHead(aiohttp.ClientError):
    """Refuse an answer that doesn't come to its point."""


class Connector(aiohttp.TCPConnector):
    """Make connections that are bounded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = functools.partial(BoundedConnection, loop=self._loop)  # type: ignore[assignment]


class BoundedConnection(ResponseHandler):
    """Pass one answer on for each request, and close the connection at what comes beyond."""

    _interim = 0
    _head_bytes = 0
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
        self._interim = self._head_bytes = self._body_bytes = 0
        self._is_final = self._is_surplus = False
        super().set_response_params(**params)

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

    @property
    def _has_ended(self) -> bool:
        over = self._is_surplus or self._body_bytes >= BODY_BYTES_MAX
        return self._is_final and (over or self._payload is None or self._payload.is_eof())

    def _take(self, piece: bytes) -> None:
        if self._is_final:
            self._body_bytes += len(piece)
        else:
            self._head_bytes += len(piece)
        super().data_received(piece)
        if not self._is_final and (self._interim > INTERIM_MAX or self._head_bytes > HEAD_BYTES_MAX):
            self.set_exception(EndlessHead())
            self._abort()
        elif self._is_surplus:
            self._end()

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


def _readable(number: int) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return poll.poll(0)
