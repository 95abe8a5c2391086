"""Put the parts of a gateway together, and say by which problem each error is answered."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cache, partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import structlog
from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.combining import Combiner
from gateway.limits.places import Places
from gateway.limits.quotas import Quotas
from gateway.parts import Gateway, keyed, sentence_of, unconditional
from gateway.reference import page
from gateway.reference.openapi import openapi_of
from gateway.requests.callers import Anyone, KeyHolders
from gateway.requests.idempotency import forgetting
from gateway.requests.paths import KeptSlashes
from gateway.requests.problems import BROKEN, CONFLICT, NOT_FOUND, REFUSED, TOO_LATE, WRONG_METHOD, Problem, unavailable
from gateway.requests.recording import Recorded
from gateway.routes import (
    audit,
    bulk,
    cluster,
    consumers,
    dead_letters,
    deliveries,
    endpoints,
    health,
    incidents,
    instances,
    jobs,
    log,
    messages,
    processes,
    schedules,
    tasks,
    tenants,
    timers,
)
from gateway.routes.creating import CREATE, TIMERS, create_timer
from gateway.settings import GatewaySettings
from gateway.upkeep.hinting import hinting
from gateway.upkeep.stats import Counted, RequestStats, reporting
from gateway.upkeep.watching import watching
from gateway.waits.task_lines import TaskLines
from gateway.waits.waiting import Waiters
from service.endpoints import EndpointConflict, UnknownEndpoint
from service.jobs import UnknownJob
from service.processes import UnknownProcess
from service.single_change import NotChanged, UnknownTimer
from service.tenants import NoOwnLimits
from sql.dsn import Dsn
from sql.pool import Pool
from sql.session import NOT_ALLOWED, StatementRefused, StoreUnavailable
from timers.refusal import Refusal

DESCRIPTION = (
    "Durable timers: schedule them, look at them, change them. It needs Postgres alone, and so accepts while no"
    " cluster runs; what is due then fires when one does."
)
READY_S = 1.0  # sooner than whoever probes gives up
PATH_SHOWN = 300  # characters, in a sentence
ELSEWHERE = "ask another gateway"
QUOTA_SESSIONS = 2  # on Postgres, to count what tenants have
OF_VALUES = ("22", "23")  # classes of SQLSTATE: a value that can't be, or that a constraint forbids
# Their changes heed idempotency keys.
OF_PROCESSES = (processes.router, instances.router, messages.router, tasks.router, incidents.router)
# Those of bulk come first: its paths would be a timer's, too.
ROUTERS = (
    health.router, bulk.router, schedules.router, log.router, deliveries.router, dead_letters.router, endpoints.router,
    jobs.router, *OF_PROCESSES, consumers.router, cluster.router, tenants.router, audit.router,
)  # fmt: skip


def make_app(settings: GatewaySettings, dsn: Dsn | str, *, needs_keys: bool) -> FastAPI:
    """Make the application of one gateway; what it opens lives as long as the server runs it."""
    stats = RequestStats()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _opened(settings, dsn, stats, needs_keys=needs_keys) as app.state.gateway:
            yield

    app = FastAPI(
        title="Shardclock",
        version=version("shardclock"),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        exception_handlers=HANDLERS,
        redirect_slashes=False,
    )
    app.add_middleware(Recorded)
    app.add_middleware(Counted, stats=stats)  # within the next, which makes the scope that is routed
    app.add_middleware(KeptSlashes)
    app.state.stats = stats
    app.router.routes.extend(_routes())
    # Made when it is first asked for, which a start need not wait for; to replace the method is FastAPI's own way.
    described = partial(openapi_of, app, [*ROUTERS, timers.router], OF_PROCESSES, {TIMERS: {"post": CREATE}})
    app.openapi = cache(described)  # type: ignore[method-assign]
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """Make the routes; they know nothing of the gateway that they serve."""
    own = APIRouter(generate_unique_id_function=lambda route: route.name)
    for router in ROUTERS:
        own.include_router(router, dependencies=[Depends(keyed if router in OF_PROCESSES else unconditional)])
    own.include_router(timers.router)
    return [
        Route(TIMERS, create_timer, methods=["POST"]),
        Route(page.PATH, page.docs, methods=["GET"]),
        *own.routes,
    ]


@asynccontextmanager
async def _opened(
    settings: GatewaySettings, dsn: Dsn | str, stats: RequestStats, *, needs_keys: bool
) -> AsyncIterator[Gateway]:
    """Open the parts of one gateway, and report what they do, during a block."""
    async with (
        Pool(
            dsn,
            application="shardclock gateway",
            size=settings.gateway_sessions,
            timeout_s=settings.gateway_timeout_s,
            wait_s=settings.gateway_wait_s,
        ) as pool,
        Pool(dsn, application="shardclock gateway health", size=1, timeout_s=READY_S, wait_s=READY_S) as looking,
        # Requests that hold sessions wait for room: with sessions of the same pool they could wait for each other.
        Pool(
            dsn,
            application="shardclock gateway quotas",
            size=QUOTA_SESSIONS,
            timeout_s=settings.gateway_timeout_s,
            wait_s=settings.gateway_wait_s,
        ) as counting,
        Combiner(pool) as combiner,
        Waiters(dsn, most=settings.gateway_waits_max) as waiters,
        Quotas(counting, settings.usual_limits) as quotas,
        forgetting(pool),
        hinting(dsn, timeout_s=settings.gateway_timeout_s) as hints,
        aclosing(TaskLines(dsn)) as task_lines,
        watching(looking) as watched,
    ):
        callers = KeyHolders(pool) if needs_keys else Anyone()
        gateway = Gateway(
            settings=settings,
            pool=pool,
            looking=looking,
            combiner=combiner,
            waiters=waiters,
            callers=callers,
            quotas=quotas,
            hints=hints,
            task_lines=task_lines,
            streams=_places_of_streams(settings),
            instance_waits=_places_of_instance_waits(settings),
        )
        async with reporting(gateway, stats, watched):
            yield gateway


def _places_of_streams(settings: GatewaySettings) -> Places:
    return Places(settings.gateway_streams_max, doing="follow the log here", way_out=ELSEWHERE)


def _places_of_instance_waits(settings: GatewaySettings) -> Places:
    return Places(
        settings.gateway_instance_waits_max,
        doing="wait for instances here",
        way_out=f"ask without wait, or {ELSEWHERE}",
    )


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
    return unavailable(str(error)).answer()


async def _no_route(request: Request, error: HTTPException) -> Response:
    path = request.scope["raw_path"].decode("ascii", "replace")[:PATH_SHOWN]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        sentence = f"{request.method} is not for {path}; /openapi.json has what is"
        return Problem(WRONG_METHOD, sentence, headers=error.headers).answer()
    return Problem(NOT_FOUND, f"there is nothing at {path}; /openapi.json has what there is").answer()


async def _refused_by_postgres(request: Request, error: StatementRefused) -> Response:
    """Answer what only the table's own rules refuse; anything else that Postgres refuses is a fault of ours."""
    if not error.sqlstate.startswith(OF_VALUES):
        return await _broken(request, error)
    said = "".join(it if it.isprintable() else "?" for it in str(error))
    return Problem(REFUSED, f"Postgres refuses it: {said}").answer()


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
    NoOwnLimits: _not_found,
    EndpointConflict: _conflict,
    Refusal: _refused,
    RequestValidationError: _invalid,
    StoreUnavailable: _unavailable,
    StatementRefused: _refused_by_postgres,
    HTTPException: _no_route,
    Exception: _broken,
}
