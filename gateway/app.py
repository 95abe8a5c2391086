"""Build a gateway's application from its routes, middleware and background tasks."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cache, partial
from http import HTTPStatus
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from shardclock_server.gateway.access import keyed, unconditional
from shardclock_server.gateway.combining import Combiner
from shardclock_server.gateway.connections import connections_of
from shardclock_server.gateway.console import routes as console
from shardclock_server.gateway.console.access import require_own_page
from shardclock_server.gateway.console.addresses import HOME, url_of
from shardclock_server.gateway.console.caching import PageCache
from shardclock_server.gateway.console.diagram import Drawings
from shardclock_server.gateway.errors import HANDLERS
from shardclock_server.gateway.gateway import Gateway
from shardclock_server.gateway.limits.body_budget import BodyBudget
from shardclock_server.gateway.limits.quotas import Quotas
from shardclock_server.gateway.limits.refused_quotas import RefusedQuotas
from shardclock_server.gateway.limits.unsent import UnsentBytes, UnsentLimit
from shardclock_server.gateway.limits.wait_limits import WaitLimits
from shardclock_server.gateway.limits.work_thread import WorkThread
from shardclock_server.gateway.oidc.single_sign_on import SingleSignOn
from shardclock_server.gateway.reference import page
from shardclock_server.gateway.reference.openapi import openapi_of
from shardclock_server.gateway.requests.callers import Anyone, KeyHolders
from shardclock_server.gateway.requests.headers import HeadAsGet, UniqueHeaders
from shardclock_server.gateway.requests.key_lookups import API_KEYS, SESSIONS, KeyLookups
from shardclock_server.gateway.requests.paths import PreservedSlashes
from shardclock_server.gateway.requests.queries import known_query
from shardclock_server.gateway.requests.recording import AuditRecorder
from shardclock_server.gateway.routes import (
    audit,
    bulk,
    cluster,
    consumers,
    dead_letters,
    deliveries,
    endpoints,
    finding,
    health,
    incidents,
    instance_changes,
    instances,
    jobs,
    lines,
    log,
    messages,
    notify,
    operations,
    processes,
    schedules,
    service_tasks,
    targets,
    tasks,
    tenants,
    timers,
)
from shardclock_server.gateway.routes.creating import CREATE, TIMERS, create_timer
from shardclock_server.gateway.settings import GatewaySettings
from shardclock_server.gateway.upkeep.measuring import measuring
from shardclock_server.gateway.upkeep.notifying import notifying
from shardclock_server.gateway.upkeep.noting import noting_refused_quotas
from shardclock_server.gateway.upkeep.operations import continuing_operations
from shardclock_server.gateway.upkeep.retention import deleting_old_responses
from shardclock_server.gateway.upkeep.stats import RequestCounter, RequestStats, reporting
from shardclock_server.gateway.waits.changes import LogChanges
from shardclock_server.gateway.waits.deferred import DeferredMiddleware
from shardclock_server.gateway.waits.instance_ends import InstanceEnds
from shardclock_server.gateway.waits.long_polls import LongPolls
from shardclock_server.gateway.waits.task_waiters import TaskWaiters
from shardclock_server.gateway.waits.timer_ends import TimerEnds
from shardclock_server.sql.claims.notifications import notify_of_due_timers
from shardclock_server.sql.deliveries.notifications import notify_of_signals
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.pool import Pool

DESCRIPTION = (
    "Schedule, find and change durable timers. The gateway needs only Postgres, so it accepts requests while no cluster"
    " runs; timers that become due in this time fire as soon as a cluster runs."
)
READY_S = 1.0  # The timeout of a readiness check; Kubernetes' probes have a longer timeout.
OTHERS_SHARE = 4  # One tenant uses at most three quarters of the sessions; one session in 4 is left for the others.
BODY_BUDGET_BYTES = 48 * 1024 * 1024  # The limit of all bodies with many timers in memory; each byte takes three bytes.
QUOTA_SESSIONS = 2  # The number of connections to Postgres on which the gateway counts the tenants' usage.
# In these routes, requests that change data support idempotency keys.
OF_PROCESSES = tuple(
    it.router for it in (processes, instances, instance_changes, messages, tasks, service_tasks, incidents)
)
# Routes of many timers come first, because the path pattern of a single timer also matches the paths of these routes.
ROUTERS = (
    health.router, lines.router, bulk.router, finding.router, schedules.router, log.router,
    deliveries.router, dead_letters.router, endpoints.router, notify.router, targets.router, jobs.router,
    *OF_PROCESSES, consumers.router, cluster.router, tenants.router, audit.router, operations.router,
)  # fmt: skip


def make_app(settings: GatewaySettings, dsn: Dsn | str, *, needs_keys: bool) -> FastAPI:
    """Create the application of one gateway; its pools and tasks start and stop with the server."""
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
    # The middleware that is added first runs innermost, so the other middlewares also process deferred responses.
    app.add_middleware(DeferredMiddleware, errors=HANDLERS)
    app.add_middleware(UnsentLimit)
    app.add_middleware(AuditRecorder)
    app.add_middleware(UniqueHeaders)
    # RequestCounter runs after PreservedSlashes and HeadAsGet, which change the routed path and method.
    app.add_middleware(RequestCounter, stats=stats)
    app.add_middleware(PreservedSlashes)
    app.add_middleware(HeadAsGet)
    app.state.stats = stats
    app.state.pages, app.state.drawings, app.state.console_paths = PageCache(), Drawings(), console.PATHS
    app.router.routes.extend(_routes())
    # List the routes of each router, because the app's own list hides them behind one object for each router.
    routers = (app, *ROUTERS, timers.router, *console.ROUTERS)
    app.state.routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
    # The first request for the reference builds the reference, so that the gateway starts sooner. FastAPI documents how
    # to override `app.openapi`.
    described = partial(openapi_of, app, [*ROUTERS, timers.router], OF_PROCESSES, {TIMERS: {"post": CREATE}})
    app.openapi = cache(described)  # type: ignore[method-assign]
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """Create the routes once for all applications; a route finds its gateway through the request."""
    own = APIRouter(generate_unique_id_function=lambda route: route.name)
    for router in ROUTERS:
        header_check = Depends(keyed if router in OF_PROCESSES else unconditional)
        own.include_router(
            router, dependencies=[header_check] if router is health.router else [header_check, Depends(known_query)]
        )
    own.include_router(timers.router, dependencies=[Depends(known_query)])
    for router in console.ROUTERS:
        own.include_router(router, dependencies=[Depends(require_own_page)])
    return [
        Route(TIMERS, create_timer, methods=["POST"]),
        Route(page.PATH, page.docs, methods=["GET"]),
        Route("/", show_first_page, methods=["GET"]),
        *own.routes,
    ]


async def show_first_page(request: Request) -> Response:
    """Send a browser from the root of the gateway to the console."""
    if "text/html" not in request.headers.get("Accept", ""):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return RedirectResponse(url_of(request, HOME), HTTPStatus.SEE_OTHER)


@asynccontextmanager
async def _waiting(dsn: Dsn | str) -> AsyncIterator[tuple[TimerEnds, InstanceEnds, TaskWaiters]]:
    """During a `with` block, serve the callers that wait for the end of a timer or an instance, or for a task."""
    async with (
        aclosing(TimerEnds(dsn)) as timer_ends,
        aclosing(InstanceEnds(dsn)) as instance_ends,
        aclosing(TaskWaiters(dsn)) as task_waiters,
    ):
        yield timer_ends, instance_ends, task_waiters


@asynccontextmanager
async def _opened(
    settings: GatewaySettings, dsn: Dsn | str, stats: RequestStats, *, needs_keys: bool
) -> AsyncIterator[Gateway]:
    """During a `with` block, open the parts of one gateway and report the gateway's metrics."""
    size = settings.gateway_sessions
    pool_of = partial(Pool, dsn, timeout_s=settings.gateway_timeout_s, wait_s=settings.gateway_wait_s)
    async with (
        pool_of(application="shardclock gateway", size=size, share=size - size // OTHERS_SHARE) as pool,
        Pool(dsn, application="shardclock gateway health", size=1, timeout_s=READY_S, wait_s=READY_S) as health_pool,
        # A request may hold a session of `pool` while it waits for the reading of a quota. If this reading also used
        # `pool`, requests could deadlock.
        pool_of(application="shardclock gateway quotas", size=QUOTA_SESSIONS) as counting,
        Combiner(pool) as combiner,
        Quotas(counting, settings.usual_limits, audited_per_hour=settings.gateway_audited_per_hour) as quotas,
        deleting_old_responses(pool),
        # Operations have their own pool, so that operations and requests don't wait for each other's sessions.
        continuing_operations(
            pool_of(application="shardclock gateway operations", size=1), operation_begun := asyncio.Event()
        ),
        notifying(dsn, notify_of_signals, to="engines", timeout_s=settings.gateway_timeout_s) as signal_notifications,
        notifying(dsn, notify_of_due_timers, to="shards", timeout_s=settings.gateway_timeout_s) as due_notifications,
        _waiting(dsn) as (timer_ends, instance_ends, task_waiters),
        aclosing(WorkThread("models", doing="have models read here")) as models,
        aclosing(WorkThread("previews", doing="preview schedules here")) as previews,
        pool_of(application="shardclock gateway keys", size=1) as key_pool,
        aclosing(KeyLookups(key_pool, API_KEYS)) as lookups,
        aclosing(KeyLookups(key_pool, SESSIONS)) as sessions,
        aclosing(LogChanges(pool)) as changes,
        measuring(health_pool) as measurements,
    ):
        registration = settings.registration
        callers = KeyHolders(lookups, sessions, settings.gateway_url, registration) if needs_keys else Anyone()
        gateway = Gateway(
            settings=settings,
            pool=pool,
            health_pool=health_pool,
            combiner=combiner,
            callers=callers,
            single_sign_on=None if registration is None else SingleSignOn(registration),
            quotas=quotas,
            refused_quotas=RefusedQuotas(),
            signal_notifications=signal_notifications,
            due_notifications=due_notifications,
            timer_ends=timer_ends,
            instance_ends=instance_ends,
            task_waiters=task_waiters,
            long_polls=LongPolls(),
            changes=changes,
            operation_begun=operation_begun,
            wait_limits=WaitLimits.of(settings, connections=connections_of(settings)),
            models=models,
            previews=previews,
            body_budget=BodyBudget(BODY_BUDGET_BYTES),
            unsent=UnsentBytes(),
            stopping=asyncio.Event(),
        )
        async with reporting(gateway, stats, measurements), noting_refused_quotas(gateway.refused_quotas, counting):
            yield gateway
