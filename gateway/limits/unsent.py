"""Limit the bytes of long responses that wait in a gateway's memory for slow clients.

The limit counts each response with a known length of more than one piece, until the client has read nearly all of the
response. A GET request is refused if its response would exceed the limit. The response to a change is always sent,
because the change is already done. Its bytes are counted only up to the tenant's share, so that they don't block the
responses to other tenants.
"""

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardclock.api.codes import TOO_MANY
from shardclock_server.gateway.limits.concurrency import PER_FREE
from shardclock_server.gateway.requests.callers import TENANT
from shardclock_server.gateway.requests.listing import PIECE_BYTES
from shardclock_server.gateway.requests.problems import RETRY_AFTER_S, Problem
from shardclock_server.timers.refusal import shortened

BYTES_MAX = 64 * 2**20


class UnsentBytes:
    """Count the unsent bytes by tenant; one tenant has at most three times the free bytes."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._by_tenant: Counter[str] = Counter()

    def require(self, tenant_id: str, size: int) -> None:
        """Refuse a response that would exceed the limit.

        errors:  Problem  the limit would be exceeded; the problem says when to retry
        """
        own, free = self._by_tenant[tenant_id] + size, self.bytes_max - self.bytes - size
        if own > PER_FREE * free:
            raise Problem(
                TOO_MANY,
                f"{own - size:,} bytes of answers to tenant {shortened(tenant_id)} are unread, and this answer has"
                f" {size:,}: more than the tenant's share of {self.bytes_max:,}; read the other answers first, or"
                " request smaller answers",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )

    def add(self, tenant_id: str, size: int) -> int:
        """Count the bytes of a response, at most up to the tenant's share; return the number of counted bytes."""
        left = PER_FREE * (self.bytes_max - self.bytes) - self._by_tenant[tenant_id]
        counted = max(0, min(size, left // (PER_FREE + 1)))
        self.bytes += counted
        self._by_tenant[tenant_id] += counted
        return counted

    def remove(self, tenant_id: str, size: int) -> None:
        """Subtract the counted bytes of a response that has ended."""
        self.bytes -= size
        self._by_tenant[tenant_id] -= size
        if not self._by_tenant[tenant_id]:
            del self._by_tenant[tenant_id]


class UnsentLimit:
    """Limit the unsent bytes of an application's long responses, and send each response piece by piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; send a long response as fast as the client reads it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _LimitedResponse(scope, receive, send)
        try:
            await self._app(scope, receive, answer.send)
        finally:
            answer.end()


class _LimitedResponse:
    """One response in progress."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._unsent: UnsentBytes | None = None
        self._size = 0
        self._counted = 0
        self._is_refused = False

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._size:
            await self._send_pieces(message)
        else:
            await self._send(message)

    def end(self) -> None:
        """Subtract the response's bytes."""
        if self._unsent is not None:
            self._unsent.remove(self._tenant_id, self._counted)

    @property
    def _tenant_id(self) -> str:
        tenant_id: str = self._scope["state"].get(TENANT, "")
        return tenant_id

    async def _start(self, message: Message) -> None:
        length = next((int(value) for name, value in message["headers"] if name == b"content-length"), 0)
        if length > PIECE_BYTES:
            unsent: UnsentBytes = self._scope["app"].state.gateway.unsent
            try:
                if self._scope["method"] == "GET":
                    unsent.require(self._tenant_id, length)
            except Problem as problem:
                self._is_refused = True
                await problem.answer()(self._scope, self._receive, self._send)
                return
            self._unsent, self._size = unsent, length
            self._counted = unsent.add(self._tenant_id, length)
        await self._send(message)

    async def _send_pieces(self, message: Message) -> None:
        """Send a body in pieces: the connection takes the next piece when the client has read most earlier pieces."""
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        for start in range(0, len(body), PIECE_BYTES):
            piece = bytes(body[start : start + PIECE_BYTES])
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        if is_last:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
