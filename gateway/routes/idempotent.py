"""Run a change at most once for each idempotency key, and answer with a response model."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import REPLAYED, Unchanged, request_of, respond_once
from shardclock_server.gateway.requests.recording import drop_record, record_of
from shardclock_server.sql.session import Session

Done = TypeVar("Done", bound=BaseModel)


async def run_idempotent(
    request: Request,
    caller: Caller,
    body: BaseModel | Mapping[str, object],
    do: Callable[[Session], Awaitable[Done]],
    *,
    status: int = HTTPStatus.OK,
    is_change: Callable[[Done], bool] = lambda _: True,
    dry_run: bool = False,
) -> Response:
    """Call `do` in a session and notify engines; a repeated request gets the first response without a call of `do`.

    The history records the API key of the change. `body` is a part of the request's identity. `is_change` returns
    whether anything was changed, given the result of `do`. If nothing was changed, the response is not stored, and a
    repeated request calls `do` again. The result of a `dry_run` is never stored, so the real request may have the same
    idempotency key.

    errors:  as in `respond_once`, and any error of `do`: nothing was changed
    """
    if dry_run:
        async with gateway_of(request).pool.session(caller.tenants) as session:
            return JSONResponse((await do(session)).model_dump(mode="json"), status)
    idempotent = request_of(request, caller, body)
    # Write the audit record of an operator's change in the same transaction.
    is_recorded = record_of(request) is not None
    if is_recorded:
        opened = audited_transaction(request, caller.tenants)
    else:
        opened = gateway_of(request).pool.session(caller.tenants, key_prefix=caller.author)
    async with opened as session:

        async def answer() -> Response:
            done = await do(session)
            kind = JSONResponse if is_change(done) else Unchanged
            return kind(done.model_dump(mode="json"), status)

        answered = await respond_once(session, idempotent, answer)
        if is_recorded and REPLAYED in answered.headers:
            drop_record(request)  # the first request with this key has recorded the change
    if not isinstance(answered, Unchanged):
        gateway_of(request).signal_notifications.want(1)
    return answered
