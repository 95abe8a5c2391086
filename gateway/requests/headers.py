"""Read the headers of a request as UTF-8, and refuse a request in which a supported header comes twice.

A proxy may use the second value while the gateway uses the first value (RFC 9110 5.3).
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardclock.api.codes import UNREADABLE
from shardclock.jsonb import NOT_UTF8
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.timers.refusal import shortened

SUPPORTED = (
    "Authorization", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "If-Match",
    "If-None-Match", "Last-Event-ID", "Origin", "Sec-Fetch-Site", "Shardclock-Tenant",
)  # fmt: skip
_NAMES = {name.lower().encode(): name for name in SUPPORTED}
IS_HEAD = "is_head"  # the key in a request's state


def header_of(headers: Headers, name: str) -> str | None:
    """Return the value of a supported header; `UniqueHeaders` has refused values that are not UTF-8."""
    text = headers.get(name)
    return None if text is None else text.encode("latin-1").decode()


class UniqueHeaders:
    """Refuse a supported header that comes twice or is not UTF-8, a missing Host, and unknown transfer codings."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 400, or pass the request on."""
        if scope["type"] == "http" and (fault := _fault_of(scope)) is not None:
            await Problem(UNREADABLE, fault).answer()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _fault_of(scope: Scope) -> str | None:
    seen = set[bytes]()
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            coding = shortened(value.decode("latin-1"))
            return f"Transfer-Encoding {coding} is not supported; send the body as it is, with chunked or a length"
        if (shown := _NAMES.get(name)) is None:
            continue
        if name in seen:
            return f"{shown} is given twice; give it once"
        seen.add(name)
        if not value.isascii():
            try:
                value.decode()
            except UnicodeDecodeError:
                return f"{shown} {shortened(value)} {NOT_UTF8}"
    if b"host" not in seen and scope["http_version"] == "1.1":
        return "Host is missing; HTTP/1.1 needs it once"
    return None


class HeadAsGet:
    """Answer HEAD as GET, without the body (RFC 9110 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a HEAD as a GET, and drop the body of the response."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        state = {**scope.get("state", {}), IS_HEAD: True}
        await self._app({**scope, "method": "GET", "state": state}, receive, without_body)


def is_head(scope: Scope) -> bool:
    """Return whether a request is a HEAD, which is routed as a GET."""
    return bool(scope.get("state", {}).get(IS_HEAD))
