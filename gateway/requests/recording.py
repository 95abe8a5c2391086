"""Write audit records of operators' changes, for all routes that operators use.

The check of the scope `operate` or `admin` starts a record (`gateway/access.py`), so no route can forget the record.
`audited_transaction` writes the record in the transaction of the change. All other records (refusals, failures, and
changes in several transactions) are written just before the response is sent.
"""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from uuid import UUID, uuid4

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardclock.api.codes import UNAVAILABLE
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import with_slashes
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.queries import takes_query
from shardclock_server.service.audit import DONE, FAILED, NOT_DONE, recorded_fields
from shardclock_server.service.operations import Actor
from shardclock_server.sql.audit.acts import NewAuditRecord, record_act
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StatementRefused, StoreUnavailable
from shardclock_server.timers.model import NAME_CHARS_MAX

SAFE_METHODS = frozenset({"GET", "HEAD"})
RECORDED_SCOPES = frozenset({"operate", "admin"})
# Not recorded: consumers send these requests thousands of times an hour, and each changes only the group's position.
UNRECORDED = frozenset({"consumers lease", "consumers acknowledge"})
TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})  # the texts that FastAPI reads as true
BY_METHOD = {"POST": "add", "PUT": "set", "PATCH": "change", "DELETE": "remove"}
# The verbs for which the command line has another name.
CLI_VERBS = {
    "timers bulk cancel": "cancel",
    "timers bulk pause": "pause",
    "timers bulk resume": "resume",
    "timers bulk shift": "reschedule",
    "timers operate": "operate",
    "timers by-name operate": "operate",
    "cluster scale": "scale",
    "cluster forecast": "scale",
    "cluster ramp": "ramp",
    "cluster hold": "hold",
    "cluster release": "release",
    "jobs set": "jobs apply",
    "jobs config": "jobs configure",
    "processes add": "deploy",
    "processes remove": "processes delete",
    "instances cancel": "processes cancel",
    "instances variables": "processes set",
    "instances move": "processes move",
    "instances resolve": "processes resolve",
    "incidents resolve": "processes resolve",
    "notify set": "notify add",
    "endpoints subscribe": "notify add",
    "endpoints unsubscribe": "notify remove",
    "endpoints test-event": "notify test",
    "consumers seek": "consumers reset",
    "consumers remove": "consumers drop",
}
CONSOLE = "/console/"
# Parameters of the console's forms about the page, not about the change.
OF_FORMS = ("acting_for", "shown_on", "hidden")
ADDRESS_CHARS_MAX = 100  # a longer address is cut, because a proxy on this machine may send any text as address


def verb_of(method: str, path: str) -> str:
    """Return a verb's name in the command line; `path` is a route's template, such as /v1/endpoints/{name}/disable.

    A form of the console has the path of the API's route, such as /console/endpoints/{name}/disable.
    """
    segments = path.removeprefix("/v1/").removeprefix(CONSOLE).split("/")
    words = [it for it in segments if not it.startswith("{")]
    if len(words) == 1:
        words.append(BY_METHOD[method])
    named = " ".join(words)
    return CLI_VERBS.get(named, named)


def is_dry_run(request: Request) -> bool:
    """Return whether a request is a dry run, which changes nothing and leaves no record."""
    return request.query_params.get("dry_run", "").lower() in TRUE and takes_query(request, "dry_run")


def give_back_unrecorded(request: Request, give_back: Callable[[], None]) -> None:
    """Register a function that `AuditRecorder` calls if the response is 404, because a 404 leaves no audit record."""
    request.state.give_audited_back = give_back


def begin_record(request: Request, caller: Caller, *, tenant_id: str | None) -> None:
    """Start the record of an operator's change by this request, for a tenant or for the whole installation."""
    if request.method in SAFE_METHODS or is_dry_run(request):
        return
    path = request.scope["route"].path
    verb = verb_of(request.method, path)
    if verb in UNRECORDED:
        return
    which = {
        name: with_slashes(value) if isinstance(value, str) else value for name, value in request.path_params.items()
    }
    given = {name: value for name, value in request.query_params.items() if name not in OF_FORMS}
    parameters = recorded_fields({**given, **which})
    if "tenant" in which:  # the operator changes this tenant
        tenant_id = str(parameters["tenant"])[:NAME_CHARS_MAX]
    address = None if request.client is None else request.client.host[:ADDRESS_CHARS_MAX]
    interface = _interface_of(request)
    request.state.act = NewAuditRecord(
        interface, verb, parameters, tenant_id, caller.key, caller.name, caller.subject, address
    )


def _interface_of(request: Request) -> str:
    return "console" if request.scope["route"].path.startswith(CONSOLE) else "api"


def record_of(request: Request) -> NewAuditRecord | None:
    """Return a request's unwritten record, or None."""
    act: NewAuditRecord | None = getattr(request.state, "act", None)
    return act


def drop_record(request: Request) -> None:
    """Drop a request's record, because the record is written already."""
    del request.state.act


def note_body(request: Request, fields: dict[str, object]) -> None:
    """Add the fields of a request's body to the request's record, if the request has a record.

    A path parameter names the changed row, so a field of the body with the same name does not replace the parameter.
    """
    act = record_of(request)
    if act is not None:
        request.state.act = replace(act, parameters={**recorded_fields(fields), **act.parameters})


def note_changed(request: Request, changed: int, operation_id: int | None) -> None:
    """Add the number of changed rows, and the number of the operation, to the record of a bulk change."""
    note_body(request, {"changed": changed, "operation_id": operation_id})


def actor_of(request: Request, caller: Caller, *, expected: int | None = None, request_id: UUID | None = None) -> Actor:
    """Return the caller that a bulk operation records; requests with the same `request_id` belong to one operation."""
    key = caller.author or None
    return Actor(_interface_of(request), caller.is_operator, key, caller.name, expected, request_id or uuid4())


class AuditRecorder:
    """Write the audit records of requests to an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; write its record before the response; answer 503 if a change is done but not recorded."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        is_replaced = False

        async def recording(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start":
                give_back = state.pop("give_audited_back", None)
                if give_back is not None and message["status"] == HTTPStatus.NOT_FOUND:
                    state.pop("act", None)
                    give_back()
                unrecorded = await _end_record(scope, state.pop("act", None), message["status"])
                if unrecorded is not None:
                    is_replaced = True
                    await unrecorded.answer()(scope, receive, send)
            if not is_replaced:
                await send(message)

        try:
            await self._app(scope, receive, recording)
        except Exception:
            await _end_record(scope, state.pop("act", None), HTTPStatus.INTERNAL_SERVER_ERROR)
            raise


async def _end_record(scope: Scope, act: NewAuditRecord | None, status: int) -> Problem | None:
    """Write a record with its outcome; if the write fails after a change, return the problem for the client."""
    if act is None:
        return None
    outcome = _outcome_of(status)
    try:
        async with scope["app"].state.gateway.pool.session(NO_TENANTS) as session:
            await record_act(session, act, outcome)
    except (StoreUnavailable, StatementRefused) as error:
        structlog.get_logger().error(
            "an operator's change has no audit record",
            verb=act.verb,
            key=act.key_prefix,
            outcome=outcome,
            why=str(error),
        )
        if outcome == DONE:
            return Problem(
                UNAVAILABLE, f"the change is made, but not in the audit ({error}); check before you repeat it"
            )
    return None


def _outcome_of(status: int) -> str:
    if status < HTTPStatus.BAD_REQUEST:
        return DONE
    return NOT_DONE if status < HTTPStatus.INTERNAL_SERVER_ERROR else FAILED
