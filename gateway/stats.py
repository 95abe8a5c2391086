"""Count requests since a gateway's start, and report them to this node's exporter."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.combining import Combiner
from gateway.families import SECONDS_EDGES
from gateway.waiting import Waiters
from metrics.buckets import Buckets
from metrics.family import OTHER
from metrics.report import Report, Reporter, Sample
from sql.pool import Pool

REPORT_S = 1.0
WAITS = b"wait="  # in the query of a request that is meant to take long


@dataclass(slots=True)
class RequestStats:
    """Count requests by operation, since the start."""

    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    took: dict[str, Buckets] = field(default_factory=dict)
    in_flight: int = 0

    def count(self, operation: str, status: int, took_s: float | None) -> None:
        """Count a request; `took_s` is None for one that was meant to take long."""
        self.answered[operation, f"{status // 100}xx"] += 1
        if took_s is not None:
            self.took.setdefault(operation, Buckets(SECONDS_EDGES)).add(took_s)


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
async def reporting(
    stats: RequestStats, pool: Pool, combiner: Combiner, waiters: Waiters, *, socket_path: str | None
) -> AsyncIterator[None]:
    """Report once in a while, during a block."""
    reporter, source = Reporter(socket_path), f"gateway-{secrets.token_hex(6)}"

    def report(*, leaving: bool = False) -> None:
        reporter.send(report_of(source, stats, pool, combiner, waiters, leaving=leaving))

    async def keep_on() -> None:
        while True:
            report()
            await asyncio.sleep(REPORT_S)

    task = asyncio.create_task(keep_on(), name="reports")
    try:
        yield
    finally:
        task.cancel()
        report(leaving=True)
        reporter.close()


def report_of(
    source: str, stats: RequestStats, pool: Pool, combiner: Combiner, waiters: Waiters, *, leaving: bool = False
) -> Report:
    """Build the report that a gateway sends to the exporter."""
    samples = [
        *(Sample("requests", labels, count) for labels, count in sorted(stats.answered.items())),
        Sample("creates_combined", (), combiner.written),
        Sample("create_batches", (), combiner.batches),
        Sample("requests_in_flight", (), stats.in_flight),
        Sample("waiters", (), waiters.count),
        Sample("gateway_sessions_in_use", (), pool.lent),
    ]
    histograms = [took.histogram("request_seconds", (operation,)) for operation, took in sorted(stats.took.items())]
    return Report(source, samples=samples, histograms=histograms, leaving=leaving)
