"""Map each error to the problem in the response: a page in the console, JSON elsewhere."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shardclock.api.codes import BROKEN, NOT_FOUND, OVER_QUOTA, QUOTA, REFUSED, WRONG_METHOD, RefusalCode
from shardclock_server.gateway.console.access import SignInNeeded
from shardclock_server.gateway.console.addresses import is_console
from shardclock_server.gateway.console.failures import find_viewer, problem_page, require_sign_in
from shardclock_server.gateway.fields import refused_field
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.headers import is_head
from shardclock_server.gateway.requests.problems import Problem, unavailable
from shardclock_server.sql.pool import PoolEmpty
from shardclock_server.sql.session import NOT_ALLOWED, StatementRefused, StoreLocked, StoreUnavailable
from shardclock_server.timers.refusal import NO_MEMBERS, Refusal

ROOM_AGAIN_S = 60
PATH_SHOWN = 300  # a message shows at most this many characters of a path


async def _problem(request: Request, error: Problem) -> Response:
    tenant_id = getattr(request.state, "tenant_id", None)
    if error.code.name.startswith(QUOTA) and tenant_id is not None:
        gateway_of(request).refused_quotas.add(tenant_id, error.code.name.removeprefix(QUOTA), error)
    return problem_page(request, error) if is_console(request) else error.answer()


async def _refused(request: Request, error: Refusal) -> Response:
    return await _problem(request, _problem_of(error.code, str(error), error.members))


def _problem_of(code: RefusalCode, sentence: str, members: Mapping[str, str | int | None] = NO_MEMBERS) -> Problem:
    problem = Problem(code, sentence)
    if code.general == OVER_QUOTA.name:
        problem.headers["Retry-After"] = str(ROOM_AGAIN_S)
    if code.name.startswith(QUOTA):
        problem.more["quota"] = code.name.removeprefix(QUOTA)
    problem.more |= members
    return problem


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return await _problem(request, refused_field(error.errors()[0]))


async def _unavailable(request: Request, error: StoreUnavailable) -> Response:
    is_ours = isinstance(error, PoolEmpty | StoreLocked)  # for these two errors, Postgres is reachable
    sentence = str(error) if is_ours else f"Postgres does not answer: {error}; send the request again"
    return await _problem(request, unavailable(sentence))


async def _no_route(request: Request, error: HTTPException) -> Response:
    path = request.scope["raw_path"].decode("ascii", "replace")[:PATH_SHOWN]
    where = "the menu" if is_console(request) else "/openapi.json"
    if is_console(request):
        await find_viewer(request)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        method = "HEAD" if is_head(request.scope) else request.method
        allowed = ", ".join(_methods_of(request))
        sentence = f"{path} does not accept {method}, but {allowed}; {where} describes these methods"
        return await _problem(request, Problem(WRONG_METHOD, sentence, headers={"Allow": allowed}))
    return await _problem(request, Problem(NOT_FOUND, f"there is nothing at {path}; {where} lists all paths"))


def _methods_of(request: Request) -> list[str]:
    """List the methods of a path: each of its routes has one method."""
    routes: Sequence[Route] = request.app.state.routes
    path = request.scope["path"]
    methods = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _refused_by_postgres(request: Request, error: StatementRefused) -> Response:
    """Answer a refusal by a SQL function or a constraint; any other refusal by Postgres is a bug of the gateway."""
    if error.code is not None and error.sqlstate != NOT_ALLOWED:
        return await _problem(request, _problem_of(error.code, str(error)))
    if not error.are_values_at_fault:
        return await _broken(request, error)
    return await _problem(request, Problem(REFUSED, f"Postgres refuses it: {error}"))


async def _broken(request: Request, error: Exception) -> Response:
    structlog.get_logger().error("a request failed", method=request.method, path=request.url.path, exc_info=error)
    if isinstance(error, StatementRefused) and error.sqlstate == NOT_ALLOWED:
        sentence = "the gateway's Postgres role lacks a right: grant it shardclock_gateway, or read the gateway's log"
        return await _problem(request, Problem(BROKEN, sentence))
    return await _problem(request, Problem(BROKEN, "the gateway has failed; the log of the gateway has the reason"))


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    SignInNeeded: require_sign_in,
    Problem: _problem,
    Refusal: _refused,
    RequestValidationError: _invalid,
    StoreUnavailable: _unavailable,
    StatementRefused: _refused_by_postgres,
    HTTPException: _no_route,
    Exception: _broken,
}
