"""Count requests since a gateway's start, and report them to this node's exporter."""

import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardclock_server.gateway.families import ALONE, SECONDS_EDGES, TENANT, TENANTS_NAMED_MAX
from shardclock_server.gateway.gateway import Gateway
from shardclock_server.gateway.upkeep.watching import Watched
from shardclock_server.keepers.loops import REPORT_S, upkeep
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.metrics.family import OTHER
from shardclock_server.metrics.report import Histogram, Report, Reporter, Sample

WAITS = b"wait="  # in the query of a request that is meant to take long
THROTTLED = 429
FAILED = ("5xx", "503")


@dataclass(slots=True)
class RequestStats:
    """Count requests by operation, and those that are throttled by tenant, since the start."""

    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    throttled: Counter[str] = field(default_factory=Counter)
    took: dict[str, Buckets] = field(default_factory=dict)
    in_flight: int = 0

    def count(self, operation: str, status: int, took_s: float | None) -> None:
        """Count a request; `took_s` is None for one that was meant to take long."""
        self.answered[operation, str(status) if status in ALONE else f"{status // 100}xx"] += 1
        if took_s is not None:
            self.took.setdefault(operation, Buckets(SECONDS_EDGES)).add(took_s)

    def throttle(self, tenant_id: str) -> None:
        """Count a request of a tenant that asks for too much; only the first such tenants are told by name."""
        is_told = tenant_id in self.throttled or len(self.throttled) < TENANTS_NAMED_MAX
        self.throttled[tenant_id if is_told and TENANT.accepts(tenant_id) else OTHER] += 1


class Counted:
    """Count the requests to an application."""

    def __init__(self, app: ASGIApp, stats: RequestStats) -> None:
        self._app = app
        self._stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count it when its answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_s = time.perf_counter()

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_s = None if WAITS in scope["query_string"] else time.perf_counter() - begun_s
                self._stats.count(operation_of(scope), message["status"], took_s)
                if message["status"] == THROTTLED:
                    self._stats.throttle(scope.get("state", {}).get("tenant_id", OTHER))
            await send(message)

        self._stats.in_flight += 1
        try:
            await self._app(scope, receive, counting)
        except Exception:
            self._stats.count(operation_of(scope), 500, None)  # whoever catches it answers that
            raise
        finally:
            self._stats.in_flight -= 1


def operation_of(scope: Any) -> str:
    """Name the operation that a request was routed to, as the API's reference does."""
    route = scope.get("route")
    if (named := getattr(route, "operation_id", None)) is not None:
        return str(named)
    endpoint = scope.get("endpoint")
    return getattr(endpoint, "__name__", OTHER)


@asynccontextmanager
async def reporting(gateway: Gateway, stats: RequestStats, watched: Watched) -> AsyncIterator[None]:
    """Report once in a while, during a block."""
    reporter, source = Reporter(gateway.settings.metrics_socket), f"gateway-{secrets.token_hex(6)}"

    def report(*, leaving: bool = False) -> None:
        samples = [*samples_of_requests(stats), *samples_of_gateway(gateway), *samples_of_watched(watched)]
        reporter.send(Report(source, samples=samples, histograms=histograms_of(stats, watched), leaving=leaving))

    async def turn() -> float:
        report()
        return REPORT_S

    try:
        async with upkeep("reports", turn):
            yield
    finally:
        report(leaving=True)
        reporter.close()


def samples_of_requests(stats: RequestStats) -> Iterator[Sample]:
    """List what was counted of requests.

    What has not failed yet is told as 0: a count that began with the first failures would not be seen to grow.
    """
    answered = {(operation, status): 0 for operation, _ in stats.answered for status in FAILED} | stats.answered
    yield from (Sample("requests", labels, count) for labels, count in sorted(answered.items()))
    yield from (Sample("requests_throttled", (tenant,), count) for tenant, count in sorted(stats.throttled.items()))
    yield Sample("requests_in_flight", (), stats.in_flight)


def samples_of_gateway(gateway: Gateway) -> Iterator[Sample]:
    """List what a gateway's parts have done, and how full they are."""
    named: dict[str, float] = {
        "gateways": 1,
        "creates_combined": gateway.combiner.written,
        "create_batches": gateway.combiner.batches,
        "waiters": gateway.wait_places.taken,
        "waiters_max": gateway.wait_places.most,
        "waiters_behind_seconds": gateway.timer_ends.behind_s,
        "log_streams": gateway.stream_places.taken,
        "log_streams_max": gateway.stream_places.most,
        "task_waits": gateway.task_wait_places.taken,
        "task_waits_max": gateway.task_wait_places.most,
        "gateway_sessions_in_use": gateway.pool.lent,
        "gateway_sessions_lent": gateway.pool.lendings,
        "gateway_session_wait_seconds": gateway.pool.waited_s,
        "gateway_sessions_missed": gateway.pool.missed,
    }
    yield from (Sample(name, (), value) for name, value in named.items())


def samples_of_watched(watched: Watched) -> Iterator[Sample]:
    """List what was watched; what nobody could count is left out."""
    if watched.keys_expiring is not None:
        yield Sample("keys_expiring", (), watched.keys_expiring)


def histograms_of(stats: RequestStats, watched: Watched) -> list[Histogram]:
    """List how long requests took, by operation, and how late the loop was."""
    took = [took.histogram("request_seconds", (operation,)) for operation, took in sorted(stats.took.items())]
    return [*took, watched.loop_lag.histogram("gateway_loop_lag_seconds", ())]
