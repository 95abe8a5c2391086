"""Put the parts of a gateway together."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cache, partial
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute, Route

from shardclock_server.gateway.access import keyed, unconditional
from shardclock_server.gateway.combining import Combiner
from shardclock_server.gateway.connections import connections_of
from shardclock_server.gateway.errors import HANDLERS
from shardclock_server.gateway.gateway import Gateway
from shardclock_server.gateway.limits.intake import Intake
from shardclock_server.gateway.limits.places import Places
from shardclock_server.gateway.limits.quotas import Quotas
from shardclock_server.gateway.limits.unsent import Outgoing, Unsent
from shardclock_server.gateway.limits.work_thread import WorkThread
from shardclock_server.gateway.reference import page
from shardclock_server.gateway.reference.openapi import openapi_of
from shardclock_server.gateway.requests.callers import Anyone, KeyHolders
from shardclock_server.gateway.requests.headers import HeadAsGet, HeededOnce
from shardclock_server.gateway.requests.key_lookups import KeyLookups
from shardclock_server.gateway.requests.paths import KeptSlashes
from shardclock_server.gateway.requests.queries import known_query
from shardclock_server.gateway.requests.recording import Recorded
from shardclock_server.gateway.routes import (
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
    lines,
    log,
    messages,
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
from shardclock_server.gateway.upkeep.forgetting import forgetting
from shardclock_server.gateway.upkeep.hinting import hinting
from shardclock_server.gateway.upkeep.stats import Counted, RequestStats, reporting
from shardclock_server.gateway.upkeep.watching import watching
from shardclock_server.gateway.waits.instance_ends import InstanceEnds
from shardclock_server.gateway.waits.later import Deferring
from shardclock_server.gateway.waits.long_polls import LongPolls
from shardclock_server.gateway.waits.task_lines import TaskLines
from shardclock_server.gateway.waits.timer_ends import TimerEnds
from shardclock_server.sql.claims.hints import send_due_hint
from shardclock_server.sql.deliveries.hints import send_signal_hint
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.pool import Pool

DESCRIPTION = (
    "Durable timers: schedule them, look at them, change them. It needs Postgres alone, and so accepts while no"
    " cluster runs; what is due then fires when one does."
)
READY_S = 1.0  # sooner than whoever probes gives up
ELSEWHERE = "ask another gateway"
NO_WAIT = f"ask without wait, or {ELSEWHERE}"
STREAM = "follow the log, lease records or wait for a run here"
HELD_SHARE = 2  # waiting callers hold at most one connection in so many
OTHERS_SHARE = 4  # one session in so many is lent to no tenant that has all the others
INTAKE_BYTES = 48 * 1024 * 1024  # of bodies of many lines: three times as much memory
QUOTA_SESSIONS = 2  # on Postgres, to count the usage of tenants
# Their changes heed idempotency keys.
OF_PROCESSES = tuple(it.router for it in (processes, instances, messages, tasks, service_tasks, incidents))
# Those of many timers come first: their paths would be a timer's, too.
ROUTERS = (
    health.router, lines.router, bulk.router, schedules.router, log.router, deliveries.router, dead_letters.router,
    endpoints.router, targets.router, jobs.router, *OF_PROCESSES, consumers.router, cluster.router, tenants.router,
    audit.router,
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
    app.add_middleware(Deferring, errors=HANDLERS)  # within those that see each answer
    app.add_middleware(Outgoing)
    app.add_middleware(Recorded)
    app.add_middleware(HeededOnce)
    app.add_middleware(Counted, stats=stats)  # within the next two, which make the scope that is routed
    app.add_middleware(KeptSlashes)
    app.add_middleware(HeadAsGet)
    app.state.stats = stats
    app.router.routes.extend(_routes())
    routers = (app, *ROUTERS, timers.router)  # those that are included are hidden behind one route each
    app.state.routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
    # Made when it is first asked for, which a start need not wait for; to replace the method is FastAPI's own way.
    described = partial(openapi_of, app, [*ROUTERS, timers.router], OF_PROCESSES, {TIMERS: {"post": CREATE}})
    app.openapi = cache(described)  # type: ignore[method-assign]
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """Make the routes; they know nothing of the gateway that they serve."""
    own = APIRouter(generate_unique_id_function=lambda route: route.name)
    for router in ROUTERS:
        heeds = Depends(keyed if router in OF_PROCESSES else unconditional)
        own.include_router(router, dependencies=[heeds] if router is health.router else [heeds, Depends(known_query)])
    own.include_router(timers.router, dependencies=[Depends(known_query)])
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
    size = settings.gateway_sessions
    pool_of = partial(Pool, dsn, timeout_s=settings.gateway_timeout_s, wait_s=settings.gateway_wait_s)
    async with (
        pool_of(application="shardclock gateway", size=size, share=size - size // OTHERS_SHARE) as pool,
        Pool(dsn, application="shardclock gateway health", size=1, timeout_s=READY_S, wait_s=READY_S) as health_pool,
        # Requests that hold sessions wait for room: with sessions of the same pool they could wait for each other.
        pool_of(application="shardclock gateway quotas", size=QUOTA_SESSIONS) as counting,
        Combiner(pool) as combiner,
        Quotas(counting, settings.usual_limits, acts_per_hour=settings.gateway_acts_per_hour) as quotas,
        forgetting(pool),
        hinting(dsn, send_signal_hint, to="engines", timeout_s=settings.gateway_timeout_s) as signal_hints,
        hinting(dsn, send_due_hint, to="shards", timeout_s=settings.gateway_timeout_s) as due_hints,
        aclosing(TimerEnds(dsn)) as timer_ends,
        aclosing(InstanceEnds(dsn)) as instance_ends,
        aclosing(TaskLines(dsn)) as task_lines,
        aclosing(WorkThread("models", doing="have models read here")) as models,
        aclosing(WorkThread("previews", doing="preview schedules here")) as previews,
        pool_of(application="shardclock gateway keys", size=1) as key_pool,
        aclosing(KeyLookups(key_pool)) as lookups,
        watching(health_pool) as watched,
    ):
        callers = KeyHolders(lookups) if needs_keys else Anyone()
        held_most = connections_of(settings) // HELD_SHARE
        held = Places(held_most, doing="wait at this gateway or follow the log", way_out=NO_WAIT, closes=True)
        gateway = Gateway(
            settings=settings,
            pool=pool,
            health_pool=health_pool,
            combiner=combiner,
            callers=callers,
            quotas=quotas,
            signal_hints=signal_hints,
            due_hints=due_hints,
            timer_ends=timer_ends,
            instance_ends=instance_ends,
            task_lines=task_lines,
            long_polls=LongPolls(),
            stream_places=Places(settings.gateway_streams_max, doing=STREAM, way_out=ELSEWHERE, within=held),
            wait_places=Places(settings.gateway_waits_max, doing="wait here", way_out=NO_WAIT, within=held),
            task_wait_places=Places(
                settings.gateway_task_waits_max, doing="wait for service tasks here", way_out=NO_WAIT, within=held
            ),
            models=models,
            previews=previews,
            intake=Intake(INTAKE_BYTES),
            unsent=Unsent(),
            stopping=asyncio.Event(),
        )
        async with reporting(gateway, stats, watched):
            yield gateway
