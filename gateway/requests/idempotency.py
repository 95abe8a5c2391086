"""For a day, answer a repeated request with the response to the first request with this `Idempotency-Key`.

The gateway stores the response in the transaction of the change. If the request or the gateway fails, nothing is
stored, and the client may repeat the request. Refusals, and responses that report no change, are not stored.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeGuard

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock.api.codes import IN_FLIGHT, OTHER_REQUEST, REFUSED
from shardclock_server.gateway.requests.bodies import JSON
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.sql.idempotency.requests import (
    IdempotentRequest,
    OtherParameters,
    RequestInProgress,
    Stored,
    begin_requests,
    store_requests,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import shortened

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_CHARS_MAX = 255
KEY_RULE = f"1 to {KEY_CHARS_MAX} printable ASCII characters; use a UUID"


class Unchanged(JSONResponse):
    """A response which reports that the request changed nothing.

    The gateway does not store the response under the idempotency key, because a repeated request may change something.
    """


def request_of(
    request: Request, caller: Caller, body: BaseModel | Mapping[str, object] | None
) -> IdempotentRequest | None:
    """Read a request's idempotency key, and hash the request's identity; None: the request has no key.

    The hash ignores missing fields of the body, so a newer release with more fields computes the same hash.

    errors:  Problem  the key is not a text of 1 to 255 characters
    """
    key = header_of(request.headers, HEADER)
    if key is None:
        return None
    if not is_key(key):
        raise Problem(REFUSED, f"{HEADER} {shortened(key)} is refused: it must be {KEY_RULE}")
    # The query is not hashed, because a repeated request may have a different `wait`.
    fields = body.model_dump(exclude_unset=True) if isinstance(body, BaseModel) else body or {}
    return request_with(caller, key, request.method, request.url.path, fields)


def request_with(caller: Caller, key: str, method: str, path: str, body: Mapping[str, object]) -> IdempotentRequest:
    """Compute the identity of a request that has an idempotency key."""
    parts = (method, path, json.dumps(body, sort_keys=True))
    return IdempotentRequest(caller.tenant_id, key, hashlib.sha256("\n".join(parts).encode()).digest())


def is_key(key: object) -> TypeGuard[str]:
    """Return whether a value is a valid idempotency key."""
    return isinstance(key, str) and 1 <= len(key) <= KEY_CHARS_MAX and key.isascii() and key.isprintable()


async def respond_once(
    session: Session, idempotent: IdempotentRequest | None, do: Callable[[], Awaitable[Response]]
) -> Response:
    """Call `do` and store the response in one transaction, unless the request is a repetition.

    `do` uses the same session, so that its statements are part of the transaction.

    errors:  Problem           the same request is in progress, or the key belongs to another request
             StoreUnavailable  the outcome is unknown: the same request may be repeated
             errors of `do`    the transaction is rolled back
    """
    if idempotent is None:
        return await do()
    async with session.transaction() as connection:
        (before,) = await begin_requests(connection, [idempotent])
        match before:
            case Stored():
                return Response(before.body, before.status, {REPLAYED: "true"}, JSON)
            case RequestInProgress():
                raise in_flight(idempotent.idempotency_key)
            case OtherParameters():
                raise differs(idempotent.idempotency_key)
        answer = await do()
        if not isinstance(answer, Unchanged):
            await store_requests(connection, [(idempotent, Stored(answer.status_code, bytes(answer.body).decode()))])
    return answer


def in_flight(key: str) -> Problem:
    """Refuse a request while the same request is in progress."""
    return Problem(IN_FLIGHT, IN_FLIGHT.sentence(key=key), headers={"Retry-After": "1"})


def differs(key: str) -> Problem:
    """Refuse a request with an idempotency key that belongs to a different request."""
    return Problem(OTHER_REQUEST, OTHER_REQUEST.sentence(key=key))
