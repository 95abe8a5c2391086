"""Do what a caller asks for, once for each idempotency key, and answer with a model."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock_server.gateway.access import acting
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import REPLAYED, NothingDone, once, request_of
from shardclock_server.gateway.requests.recording import act_of, drop_act
from shardclock_server.sql.session import Session

Done = TypeVar("Done", bound=BaseModel)


async def do_once(
    request: Request,
    caller: Caller,
    body: BaseModel | Mapping[str, object],
    do: Callable[[Session], Awaitable[Done]],
    *,
    status: int = HTTPStatus.OK,
    did: Callable[[Done], bool] = lambda _: True,
    dry_run: bool = False,
) -> Response:
    """Do something with processes in a session, and tell engines; not again if the same request was done before.

    The history tells by which API key. `body` is what else makes a request the same. `did` says of an answer whether
    something was done: if nothing was, the same request is done anew. A `dry_run` has no answer that is kept: the same
    key may then do what was only said.

    errors:  as `once`, and whatever `do` raises; then nothing was done
    """
    if dry_run:
        async with gateway_of(request).pool.session(caller.tenants) as session:
            return JSONResponse((await do(session)).model_dump(mode="json"), status)
    idempotent = request_of(request, caller, body)
    # What is an operator's is recorded in the same transaction.
    is_act, key_prefix = act_of(request) is not None, caller.key or ""
    if is_act:
        lent = acting(request, caller.tenants, key_prefix=key_prefix)
    else:
        lent = gateway_of(request).pool.session(caller.tenants, key_prefix=key_prefix)
    async with lent as session:

        async def answer() -> Response:
            done = await do(session)
            kind = JSONResponse if did(done) else NothingDone
            return kind(done.model_dump(mode="json"), status)

        answered = await once(session, idempotent, answer)
        if is_act and REPLAYED in answered.headers:
            drop_act(request)  # it was recorded when it was done
    if not isinstance(answered, NothingDone):
        gateway_of(request).signal_hints.want(1)
    return answered
