"""A request that is sent again with its `Idempotency-Key` gets the first answer again, for a day.

The answer is stored in the transaction that does the work. So one that was not done, or whose gateway died, leaves
nothing behind and may be sent again. What is refused is not stored either, nor that there was nothing to do: it is
asked for anew.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeGuard

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock_server.gateway.requests.bodies import JSON
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.problems import IN_FLIGHT, OTHER_REQUEST, REFUSED, Problem
from shardclock_server.sql.requests.requests import (
    IdempotentRequest,
    InFlight,
    OtherParameters,
    Stored,
    begin_requests,
    store_requests,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import shortened

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_CHARS_MAX = 255
KEY_RULE = f"1 to {KEY_CHARS_MAX} printable ASCII characters; draw a UUID"


class NothingDone(JSONResponse):
    """Answer that there was nothing to do: the next time there may be."""


def request_of(
    request: Request, caller: Caller, body: BaseModel | Mapping[str, object] | None
) -> IdempotentRequest | None:
    """Read a request's key, and what else makes it the same request; None if it has no key.

    Of a body only what was sent: a newer release, which knows more fields, takes the same bytes for the same request.

    errors:  Problem  the key is no text of 1 to 255 characters
    """
    key = header_of(request.headers, HEADER)
    if key is None:
        return None
    if not is_key(key):
        raise Problem(REFUSED, f"{HEADER} {shortened(key)} is refused: it must be {KEY_RULE}")
    # Without the query: for how long a caller waits for the answer makes it no other request.
    fields = body.model_dump(exclude_unset=True) if isinstance(body, BaseModel) else body or {}
    return request_with(caller, key, request.method, request.url.path, fields)


def request_with(caller: Caller, key: str, method: str, path: str, body: Mapping[str, object]) -> IdempotentRequest:
    """Make a request with a key of what makes it the same request."""
    parts = (method, path, json.dumps(body, sort_keys=True))
    return IdempotentRequest(caller.tenant_id, key, hashlib.sha256("\n".join(parts).encode()).digest())


def is_key(key: object) -> TypeGuard[str]:
    """Say whether something may be a key."""
    return isinstance(key, str) and 1 <= len(key) <= KEY_CHARS_MAX and key.isascii() and key.isprintable()


async def once(
    session: Session, idempotent: IdempotentRequest | None, do: Callable[[], Awaitable[Response]]
) -> Response:
    """Do something in one transaction with the record of its request, unless it was done before.

    `do` uses the same session, so that its statements are part of the transaction.

    errors:  Problem           the same request is under way, or the key belongs to another one
             StoreUnavailable  the outcome is unknown: the same request may be sent again
             whatever `do` raises; then nothing was done
    """
    if idempotent is None:
        return await do()
    async with session.transaction() as connection:
        (before,) = await begin_requests(connection, [idempotent])
        match before:
            case Stored():
                return Response(before.body, before.status, {REPLAYED: "true"}, JSON)
            case InFlight():
                raise in_flight(idempotent.idempotency_key)
            case OtherParameters():
                raise differs(idempotent.idempotency_key)
        answer = await do()
        if not isinstance(answer, NothingDone):
            await store_requests(connection, [(idempotent, Stored(answer.status_code, bytes(answer.body).decode()))])
    return answer


def in_flight(key: str) -> Problem:
    """Refuse a request while the same one is being answered."""
    return Problem(
        IN_FLIGHT,
        f"a request with the {HEADER} {shortened(key)} is being answered now; send it again in a moment",
        headers={"Retry-After": "1"},
    )


def differs(key: str) -> Problem:
    """Refuse a request whose key another request had."""
    return Problem(
        OTHER_REQUEST, f"the {HEADER} {shortened(key)} came with another request within a day; draw a new one for this"
    )
