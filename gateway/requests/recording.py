"""Record in the audit what operators do: the one seam that each of their routes passes.

A route whose caller needs the scope `operate` or `admin` begins an act where that scope is demanded
(`gateway/access.py`), so no route can forget it. What is done by statements of one transaction is recorded in it, by
`acting`. All else is recorded when the answer is known, and before it is sent: what was refused, what has failed, and
what is many transactions or none.
"""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import with_slashes
from shardclock_server.gateway.requests.problems import TRY_AGAIN, Problem
from shardclock_server.service.audit import DONE, FAILED, NOT_DONE, shown
from shardclock_server.sql.audit.acts import NewAct, record_act
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StatementRefused, StoreUnavailable

LOOKING = frozenset({"GET", "HEAD"})
RECORDED_SCOPES = frozenset({"operate", "admin"})
# Consumers do these thousands of times an hour, and they change nothing but the group's own place.
WORK = frozenset({"consumers lease", "consumers acknowledge"})
TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})  # as a route's bool is read
BY_METHOD = {"POST": "add", "PUT": "set", "PATCH": "change", "DELETE": "remove"}
# What the command line calls otherwise.
CALLED = {
    "timers bulk cancel": "cancel",
    "timers bulk pause": "pause",
    "timers bulk resume": "resume",
    "timers bulk shift": "reschedule",
    "timers operate": "operate",
    "timers by-name operate": "operate",
    "cluster scale": "scale",
    "cluster ramp": "ramp",
    "cluster hold": "hold",
    "cluster release": "release",
    "jobs set": "jobs apply",
    "jobs config": "jobs configure",
    "processes add": "deploy",
    "processes remove": "processes delete",
    "instances move": "processes move",
    "instances resolve": "processes resolve",
    "incidents resolve": "processes resolve",
    "consumers seek": "consumers reset",
    "consumers remove": "consumers drop",
}
ADDRESS_CHARACTERS_MAX = 100  # a proxy on this machine may say anything


def verb_of(method: str, path: str) -> str:
    """Name what a route does as the command line does; `path` is a template, such as /v1/endpoints/{name}/disable."""
    segments = path.removeprefix("/v1/").split("/")
    words = [it for it in segments if not it.startswith("{")]
    if len(words) == 1:
        words.append(BY_METHOD[method])
    named = " ".join(words)
    return CALLED.get(named, named)


def is_dry_run(request: Request) -> bool:
    """Say whether a request only asks what would be done, which leaves no record."""
    return request.query_params.get("dry_run", "").lower() in TRUE


def give_back_unrecorded(request: Request, give_back: Callable[[], None]) -> None:
    """Give the place of a tenant's act back if its thing is not there: such an act leaves no record."""
    request.state.give_act_back = give_back


def begin_act(request: Request, caller: Caller, *, tenant_id: str | None) -> None:
    """Begin to record what an operator does by this request, for a tenant or for the whole installation."""
    if request.method in LOOKING or is_dry_run(request):
        return
    verb = verb_of(request.method, request.scope["route"].path)
    if verb in WORK:
        return
    which = {
        name: with_slashes(value) if isinstance(value, str) else value for name, value in request.path_params.items()
    }
    what = shown({**which, **request.query_params})
    address = None if request.client is None else request.client.host[:ADDRESS_CHARACTERS_MAX]
    request.state.act = NewAct("api", verb, what, tenant_id, caller.key, caller.name, address)


def act_of(request: Request) -> NewAct | None:
    """Return what is yet to be recorded of a request; None: nothing."""
    act: NewAct | None = getattr(request.state, "act", None)
    return act


def drop_act(request: Request) -> None:
    """Record nothing more of a request: it is recorded."""
    del request.state.act


def note_body(request: Request, fields: dict[str, object]) -> None:
    """Add what a request's body asks for to what is recorded of it, if it is recorded."""
    act = act_of(request)
    if act is not None:
        request.state.act = replace(act, what={**act.what, **shown(fields)})


class Recorded:
    """Record what operators do by requests to an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an act is recorded before its answer begins, or is answered as one that was not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        is_replaced = False

        async def recording(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start":
                give_back = state.pop("give_act_back", None)
                if give_back is not None and message["status"] == HTTPStatus.NOT_FOUND:
                    state.pop("act", None)
                    give_back()
                unrecorded = await _end_act(scope, state.pop("act", None), message["status"])
                if unrecorded is not None:
                    is_replaced = True
                    await unrecorded.answer()(scope, receive, send)
            if not is_replaced:
                await send(message)

        try:
            await self._app(scope, receive, recording)
        except Exception:
            await _end_act(scope, state.pop("act", None), HTTPStatus.INTERNAL_SERVER_ERROR)
            raise


async def _end_act(scope: Scope, act: NewAct | None, status: int) -> Problem | None:
    """Record how an act ended; if that fails, say so to a caller who would else believe that all is well."""
    if act is None:
        return None
    outcome = _outcome_of(status)
    try:
        async with scope["app"].state.gateway.pool.session(NO_TENANTS) as session:
            await record_act(session, act, outcome)
    except (StoreUnavailable, StatementRefused) as error:
        structlog.get_logger().error(
            "an operator's verb is not in the audit", verb=act.verb, key=act.key_prefix, outcome=outcome, why=str(error)
        )
        if outcome == DONE:
            return Problem(TRY_AGAIN, f"it is done, and not in the audit ({error}); look before you ask for it again")
    return None


def _outcome_of(status: int) -> str:
    if status < HTTPStatus.BAD_REQUEST:
        return DONE
    return NOT_DONE if status < HTTPStatus.INTERNAL_SERVER_ERROR else FAILED
