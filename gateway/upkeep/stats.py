"""Count requests since a gateway's start, and report the counts to this node's exporter."""

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
from shardclock_server.gateway.upkeep.measuring import Measurements
from shardclock_server.keepers.loops import upkeep
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.metrics.family import OTHER
from shardclock_server.metrics.report import REPORT_S, Histogram, MetricsReport, Reporter, Sample

WAITS = b"wait="  # a long poll has this text in its query
THROTTLED = 429
FAILED = ("5xx", "503")


@dataclass(slots=True)
class RequestStats:
    """Count requests by operation, and throttled requests by tenant, since the start."""

    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    throttled: Counter[str] = field(default_factory=Counter)
    took: dict[str, Buckets] = field(default_factory=dict)
    in_flight: int = 0

    def count(self, operation: str, status: int, took_s: float | None) -> None:
        """Count a request; `took_s` is None for a long poll."""
        self.answered[operation, str(status) if status in ALONE else f"{status // 100}xx"] += 1
        if took_s is not None:
            self.took.setdefault(operation, Buckets(SECONDS_EDGES)).add(took_s)

    def throttle(self, tenant_id: str) -> None:
        """Count a throttled request of a tenant; only the first TENANTS_NAMED_MAX tenants have their own count."""
        is_told = tenant_id in self.throttled or len(self.throttled) < TENANTS_NAMED_MAX
        self.throttled[tenant_id if is_told and TENANT.accepts(tenant_id) else OTHER] += 1


class RequestCounter:
    """Count the requests to an application."""

    def __init__(self, app: ASGIApp, stats: RequestStats) -> None:
        self._app = app
        self._stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and count it when its response starts."""
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
            self._stats.count(operation_of(scope), 500, None)  # the status of the outer error handler
            raise
        finally:
            self._stats.in_flight -= 1


def operation_of(scope: Any) -> str:
    """Return the operation of a routed request, by its name in the reference."""
    route = scope.get("route")
    if (named := getattr(route, "operation_id", None)) is not None:
        return str(named)
    endpoint = scope.get("endpoint")
    return getattr(endpoint, "__name__", OTHER)


@asynccontextmanager
async def reporting(gateway: Gateway, stats: RequestStats, measurements: Measurements) -> AsyncIterator[None]:
    """Report the counts at intervals, during a `with` block."""
    reporter, source = Reporter(gateway.settings.metrics_socket), f"gateway-{secrets.token_hex(6)}"

    def report(*, leaving: bool = False) -> None:
        samples = [*samples_of_requests(stats), *samples_of_gateway(gateway), *samples_of_measurements(measurements)]
        reporter.send(
            MetricsReport(source, samples=samples, histograms=histograms_of(stats, measurements), leaving=leaving)
        )

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
    """List the counts of requests.

    Each status of a failure starts at 0, because Prometheus would see no increase in a series that starts with the
    first failure.
    """
    answered = {(operation, status): 0 for operation, _ in stats.answered for status in FAILED} | stats.answered
    yield from (Sample("requests", labels, count) for labels, count in sorted(answered.items()))
    yield from (Sample("requests_throttled", (tenant,), count) for tenant, count in sorted(stats.throttled.items()))
    yield Sample("requests_in_flight", (), stats.in_flight)


def samples_of_gateway(gateway: Gateway) -> Iterator[Sample]:
    """List the counts and gauges of a gateway's parts."""
    named: dict[str, float] = {
        "gateways": 1,
        "creates_combined": gateway.combiner.written,
        "create_batches": gateway.combiner.batches,
        "waiters": gateway.wait_limits.ends.in_use,
        "waiters_max": gateway.wait_limits.ends.most,
        "waiters_behind_seconds": gateway.timer_ends.behind_s,
        "log_streams": gateway.wait_limits.streams.in_use,
        "log_streams_max": gateway.wait_limits.streams.most,
        "task_waits": gateway.wait_limits.tasks.in_use,
        "task_waits_max": gateway.wait_limits.tasks.most,
        "gateway_sessions_in_use": gateway.pool.lent,
        "gateway_sessions_lent": gateway.pool.lendings,
        "gateway_session_wait_seconds": gateway.pool.waited_s,
        "gateway_sessions_missed": gateway.pool.missed,
    }
    yield from (Sample(name, (), value) for name, value in named.items())


def samples_of_measurements(measurements: Measurements) -> Iterator[Sample]:
    """List the number of expiring keys, if it is known."""
    if measurements.keys_expiring is not None:
        yield Sample("keys_expiring", (), measurements.keys_expiring)


def histograms_of(stats: RequestStats, measurements: Measurements) -> list[Histogram]:
    """List two kinds of histograms: the durations of each operation's requests, and the lag of the event loop."""
    took = [took.histogram("request_seconds", (operation,)) for operation, took in sorted(stats.took.items())]
    return [*took, measurements.loop_lag.histogram("gateway_loop_lag_seconds", ())]
