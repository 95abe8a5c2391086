"""Compute the number of shards from the forecast of due timers, if a scaling policy is set."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from shardclock_server.coordinator.demand import ClusterLoad, GiveBack, shards_for
from shardclock_server.coordinator.fleet import FleetUnavailable
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.leadership import Leadership, ScalingPolicy, follow_forecast, read_policy
from shardclock_server.sql.metrics.forecast import read_forecast
from shardclock_server.sql.metrics.measures import EVER, count_due, readings_scan
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused, StoreUnavailable

NOW = timedelta(0)
ASK_AGAIN_S = 60.0  # the request for nodes is repeated, because Ray forgets the request when Ray's head is lost


@dataclass(frozen=True, slots=True)
class LoadReading:
    """The scaling policy and the load, from one read of the tables."""

    policy: ScalingPolicy
    load: ClusterLoad


class Scaling:
    """Compute the number of shards while a policy is set, from a forecast that a separate connection reads.

    Because of the separate connection, no iteration of the reconcile loop waits for the read.
    """

    def __init__(
        self,
        role: str,
        settings: CoordinatorSettings,
        session: Session,
        ask_for_nodes: Callable[[int], Awaitable[None]],
    ) -> None:
        self._role = role
        self._settings = settings
        self._session = session
        self._ask_for_nodes = ask_for_nodes
        self._session_of_readings = session.another(
            application="shardclock forecast", timeout_s=settings.coordinator_timeout_s, plans=QUEUE_PLANS
        )
        self._reading: asyncio.Task[LoadReading] | None = None
        self._read_at_s = 0.0
        self._overdue = readings_scan()
        self._records: tuple[float, int] | None = None
        self._forget(term=0)
        # -1: unknown, because a request by an earlier incarnation of the coordinator may still be in force.
        self._asked: tuple[int, float] = (-1, 0.0)
        self._log = structlog.get_logger()

    async def turn(self, leadership: Leadership, leader: int) -> int:
        """Return the wanted number of keepers; if a policy is set, first store the number from the forecast.

        errors:  StoreUnavailable  no answer before the timeout
        """
        if leadership.term != self._term:
            await self._end_reading()  # the result may be hours old, and may contain another leader's number
            self._forget(term=leadership.term)
        before = leadership.wanted[self._role]
        reading = self._last_reading()
        if reading is None:
            return before
        if reading.policy.wanted_min is None or reading.policy.wanted_max is None:
            await self.stand_by()
            return before
        await self._ask(self._follow(self._nodes, reading, within_s=self._settings.nodes_ahead_s))
        wanted = self._follow(self._shards, reading, within_s=self._settings.shards_ahead_s)
        if wanted == before:
            return wanted
        followed = await follow_forecast(self._session, leader, self._role, term=leadership.term, wanted=wanted)
        if followed:
            self._log.info("follows the forecast", role=self._role, wanted=wanted, before=before)
        return wanted if followed else before

    async def stand_by(self) -> None:
        """Withdraw this coordinator's request for nodes, because no policy is set or this coordinator does not lead."""
        self._forget(term=self._term)
        await self._ask(0)

    async def close(self) -> None:
        """Cancel a running read, and close the connection."""
        await self._end_reading()
        await self._session_of_readings.close()

    async def _end_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            self._reading = None

    def _forget(self, *, term: int) -> None:
        """Discard earlier results, because they belong to another leader or to another policy."""
        self._term = term
        self._shards = GiveBack(self._settings.give_back_s)
        self._nodes = GiveBack(self._settings.give_back_s)

    def _last_reading(self) -> LoadReading | None:
        """Return the result of the last read once, and then None; start a new read when it is due."""
        now_s, seen = time.monotonic(), None
        if self._reading is not None and self._reading.done():
            error = self._reading.exception()
            if error is None:
                seen = self._reading.result()
            elif isinstance(error, StoreUnavailable | StatementRefused):
                self._log.warning("no forecast", error=str(error))
            else:
                raise error
            self._reading = None
        if self._reading is None and now_s >= self._read_at_s:
            self._read_at_s = now_s + self._settings.forecast_s
            self._reading = asyncio.create_task(self._read(), name="forecast")
        return seen

    async def _read(self) -> LoadReading:
        policy = await read_policy(self._session_of_readings, self._role)
        recent_per_s = self._recent_per_s(policy.log_records)
        overdue = await self._count_overdue()
        return LoadReading(policy, ClusterLoad(await read_forecast(self._session_of_readings), overdue, recent_per_s))

    async def _count_overdue(self) -> int:
        window = self._overdue.begin(now_s=time.monotonic(), every_s=self._settings.forecast_s)
        try:
            counts = await count_due(self._session_of_readings, (EVER, NOW), window=window)
        except StoreUnavailable:
            self._overdue.fail(now_s=time.monotonic())
            raise
        self._overdue.learn(now_s=time.monotonic(), left_s=counts.oldest_overdue_s)
        return sum(counts.timers)

    def _recent_per_s(self, records: int) -> float:
        """Return how many log records per second were added since the last read."""
        before, now_s = self._records, time.monotonic()
        self._records = now_s, records
        return (records - before[1]) / (now_s - before[0]) if before else 0.0

    def _follow(self, recent: GiveBack, reading: LoadReading, *, within_s: float) -> int:
        policy = reading.policy
        assert policy.wanted_min is not None
        assert policy.wanted_max is not None
        if not recent:
            # The current wanted number counts as a recent result.
            recent.follow(policy.wanted, now_s=time.monotonic())
        asked = shards_for(reading.load.per_s(within_s=within_s), target_per_s=policy.target_per_s)
        return min(max(recent.follow(asked, now_s=time.monotonic()), policy.wanted_min), policy.wanted_max)

    async def _ask(self, shards: int) -> None:
        """Request nodes for `shards` shards when the number changes; repeat the request every `ASK_AGAIN_S`."""
        asked, at_s = self._asked
        if shards == asked and not (shards and time.monotonic() > at_s + ASK_AGAIN_S):
            return
        try:
            await self._ask_for_nodes(shards)
        # the error is only logged, because the shards are also scaled without new nodes
        except FleetUnavailable as error:
            self._log.warning("could not ask for nodes", shards=shards, error=str(error))
        else:
            self._asked = shards, time.monotonic()
