"""Send operator events while this coordinator leads. A failed iteration is repeated, and does not affect other work."""

import asyncio
import time

import structlog

from shardclock.backoff import Backoff
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.service.hold import read_hold
from shardclock_server.service.job_check import late_jobs
from shardclock_server.service.overview import judge_lag
from shardclock_server.service.wording import span_of
from shardclock_server.sql.metrics.status import read_status
from shardclock_server.sql.notify.events import ObservedEvent, note_events, read_subscribed_kinds, send_events
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

EVERY_S = 1.0  # The time between two iterations; an event becomes a delivery at most a second after its commit.
OBSERVE_S = 15.0  # The time between two observations, equal to Prometheus's scrape interval.
# The pauses after failures. The statement fails, for example, if a database role lacks a privilege that a new release
# needs.
RETRY_S, RETRY_S_MAX = 5.0, 300.0
LAG, LATE = "cluster.lag", "job.late"  # The coordinator observes these events, because no row change shows them.


class OperatorEvents:
    """Convert events to deliveries once a second; a separate connection observes the lag of timers and late jobs."""

    def __init__(self, session: Session, settings: CoordinatorSettings) -> None:
        self._session = session
        self._settings = settings
        self._session_of_readings = session.another(
            application="shardclock events", timeout_s=settings.coordinator_timeout_s
        )
        self._observing: asyncio.Task[None] | None = None
        self._next_at_s = self._observe_at_s = 0.0
        self._failures = 0
        self._log = structlog.get_logger()

    async def turn(self) -> None:
        """Convert events to deliveries if the pause is over; log a failure, and wait longer after each failure."""
        now_s = time.monotonic()
        if now_s < self._next_at_s:
            return
        try:
            await send_events(self._session)
            if now_s >= self._observe_at_s and (self._observing is None or self._observing.done()):
                self._observe_at_s = now_s + OBSERVE_S
                await self._begin_to_observe()
            self._failures, pause_s = 0, EVERY_S
        except (StoreUnavailable, StatementRefused) as error:
            self._failures += 1
            pause_s = Backoff(RETRY_S, RETRY_S_MAX).pause_s(self._failures)
            self._log.warning("events for operators wait", error=str(error), retry_s=pause_s)
        self._next_at_s = time.monotonic() + pause_s

    async def close(self) -> None:
        """Cancel a running observation, and close the connection."""
        if self._observing is not None:
            self._observing.cancel()
            await asyncio.wait([self._observing])
        await self._session_of_readings.close()

    async def _begin_to_observe(self) -> None:
        kinds = await read_subscribed_kinds(self._session)
        if kinds & {LAG, LATE}:
            self._observing = asyncio.create_task(self._observe(kinds), name="observe events")

    async def _observe(self, kinds: frozenset[str]) -> None:
        session = self._session_of_readings
        try:
            found = [*(await _lag(session, self._settings) if LAG in kinds else ())]
            found += await _late(session) if LATE in kinds else ()
            if found:
                await note_events(session, found)
        except (StoreUnavailable, StatementRefused) as error:
            self._log.warning("nothing observed for operators", error=str(error))


async def _lag(session: Session, settings: CoordinatorSettings) -> list[ObservedEvent]:
    # During a hold no lag is reported: all timers are late, and the hold has an event of its own.
    if await read_hold(session, settings.identity, silent_s=settings.silent_s) is not None:
        return []
    judged = judge_lag(await read_status(session))
    if judged.is_on_time:
        return []
    return [ObservedEvent(LAG, "lag", f"timers fire late: {judged.why}", {"reason": judged.why})]


async def _late(session: Session) -> list[ObservedEvent]:
    return [
        ObservedEvent(
            LATE,
            name,
            f"job {name} is late: a success is overdue by {span_of(late_s)}",
            {"job": name, "success_overdue_s": round(late_s, 3)},
        )
        for name, late_s in (await late_jobs(session)).items()
    ]
