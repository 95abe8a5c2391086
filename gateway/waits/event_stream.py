"""Answer with server-sent events while the caller holds a slot of the waiting callers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from shardclock_server.gateway.requests.headers import is_head

EVENTS = "text/event-stream"
AcquireSlot = Callable[[], Awaitable[AbstractContextManager[object]]]


class EventStream(StreamingResponse):
    """A stream of events that holds a slot until the stream ends. If no slot is free, the response is a problem."""

    def __init__(self, events: AsyncIterator[str], acquire_slot: AcquireSlot) -> None:
        # A proxy must not store the stream and must not buffer its events.
        super().__init__(events, media_type=EVENTS, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._acquire_slot = acquire_slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a slot, and send the events; a HEAD is answered immediately, and takes no slot.

        errors:  Problem           no slot is free, at the gateway or for the tenant
                 StoreUnavailable  the tenant's limit can't be read now
        """
        if is_head(scope):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        with await self._acquire_slot():
            await super().__call__(scope, receive, send)
