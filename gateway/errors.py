"""By which problem each error is answered."""

from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shardclock_server.gateway.fields import sentence_of
from shardclock_server.gateway.requests.headers import is_head
from shardclock_server.gateway.requests.problems import (
    BROKEN,
    CONFLICT,
    NOT_FOUND,
    OVER_QUOTA,
    REFUSED,
    TOO_LATE,
    WRONG_METHOD,
    Problem,
    unavailable,
)
from shardclock_server.service.deliveries import DeliveryConflict
from shardclock_server.service.endpoints import EndpointConflict, UnknownEndpoint
from shardclock_server.service.hold import NotReleased
from shardclock_server.service.jobs import JobConflict, UnknownJob
from shardclock_server.service.processes import OverQuota, UnknownProcess
from shardclock_server.service.redriving import NotRedriven
from shardclock_server.service.single_change import NotChanged, TimerConflict, UnknownTimer
from shardclock_server.service.tasks import UnknownTask
from shardclock_server.service.tenants import NoOwnLimits
from shardclock_server.sql.pool import PoolEmpty
from shardclock_server.sql.session import NOT_ALLOWED, StatementRefused, StoreLocked, StoreUnavailable
from shardclock_server.timers.refusal import Refusal

ROOM_AGAIN_S = 60
PATH_SHOWN = 300  # characters, in a sentence


async def _problem(_: Request, error: Problem) -> Response:
    return error.answer()


async def _not_changed(_: Request, error: NotChanged) -> Response:
    return Problem(NOT_FOUND if isinstance(error, UnknownTimer) else TOO_LATE, str(error), state=error.state).answer()


async def _refused(_: Request, error: Refusal) -> Response:
    return Problem(REFUSED, str(error)).answer()


async def _not_found(_: Request, error: Refusal) -> Response:
    return Problem(NOT_FOUND, str(error)).answer()


async def _conflict(_: Request, error: Refusal) -> Response:
    return Problem(CONFLICT, str(error)).answer()


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    return Problem(REFUSED, sentence_of(error.errors()[0])).answer()


async def _unavailable(_: Request, error: StoreUnavailable) -> Response:
    is_ours = isinstance(error, PoolEmpty | StoreLocked)  # Postgres may well be there
    return unavailable(str(error) if is_ours else f"Postgres does not answer: {error}; send it again").answer()


async def _no_route(request: Request, error: HTTPException) -> Response:
    path = request.scope["raw_path"].decode("ascii", "replace")[:PATH_SHOWN]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        method = "HEAD" if is_head(request.scope) else request.method
        allowed = ", ".join(_methods_of(request))
        sentence = f"{method} is not for {path}, which takes {allowed}; /openapi.json has what each does"
        return Problem(WRONG_METHOD, sentence, headers={"Allow": allowed}).answer()
    return Problem(NOT_FOUND, f"there is nothing at {path}; /openapi.json has what there is").answer()


def _methods_of(request: Request) -> list[str]:
    """List the methods of a path: each of its routes has one of them."""
    routes: Sequence[Route] = request.app.state.routes
    path = request.scope["path"]
    methods = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _no_room(_: Request, error: OverQuota) -> Response:
    return _over_quota(str(error), error.resource)


def _over_quota(sentence: str, resource: str) -> Response:
    return Problem(OVER_QUOTA, sentence, headers={"Retry-After": str(ROOM_AGAIN_S)}, quota=resource).answer()


async def _refused_by_postgres(request: Request, error: StatementRefused) -> Response:
    """Answer what only the table's own rules refuse; anything else that Postgres refuses is a fault of ours."""
    if error.is_over_quota:
        return _over_quota(str(error), error.constraint)
    if not error.are_values_at_fault:
        return await _broken(request, error)
    return Problem(REFUSED, f"Postgres refuses it: {error}").answer()


async def _broken(request: Request, error: Exception) -> Response:
    structlog.get_logger().error("a request failed", method=request.method, path=request.url.path, exc_info=error)
    if isinstance(error, StatementRefused) and error.sqlstate == NOT_ALLOWED:
        return Problem(
            BROKEN,
            "Postgres refuses this to the gateway's role: grant it shardclock_gateway, or read the gateway's log",
        ).answer()
    return Problem(BROKEN, "the gateway has failed; its log says why").answer()


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    Problem: _problem,
    NotChanged: _not_changed,
    UnknownJob: _not_found,
    UnknownEndpoint: _not_found,
    UnknownProcess: _not_found,
    OverQuota: _no_room,
    UnknownTask: _not_found,
    NoOwnLimits: _not_found,
    DeliveryConflict: _conflict,
    EndpointConflict: _conflict,
    JobConflict: _conflict,
    NotRedriven: _conflict,
    NotReleased: _conflict,
    TimerConflict: _conflict,
    Refusal: _refused,
    RequestValidationError: _invalid,
    StoreUnavailable: _unavailable,
    StatementRefused: _refused_by_postgres,
    HTTPException: _no_route,
    Exception: _broken,
}
