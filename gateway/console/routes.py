"""All routes of the console."""

from fastapi import APIRouter
from starlette.routing import Route

from shardclock_server.gateway.console import assets, live, signing_in, single_sign_on
from shardclock_server.gateway.console.addresses import HOME, ROOT
from shardclock_server.gateway.console.pages import (
    audit,
    cluster,
    dead_letters,
    deliveries,
    endpoints,
    instances,
    jobs,
    log,
    new_timer,
    one_timer,
    operations,
    overview,
    processes,
    schedules,
    subscriptions,
    tasks,
    tenants,
    timers,
)

FAMILIES = (
    overview, timers, new_timer, one_timer, schedules, deliveries, dead_letters, endpoints, subscriptions, jobs, audit,
    log, operations, tasks, processes, instances, cluster, tenants,
)  # fmt: skip
PAGES = tuple(it.router for it in FAMILIES)
ROUTERS: tuple[APIRouter, ...] = (
    *PAGES, signing_in.router, single_sign_on.router, live.router, assets.router
)  # fmt: skip
PATHS = frozenset(
    route.path.removeprefix(ROOT) or HOME for router in PAGES for route in router.routes if isinstance(route, Route)
)
