"""The quotas of one tenant: writes a second, pending timers, their payloads, schedules, and waiting callers.

No create counts anything in Postgres. A gateway counts a tenant's pending timers once in a while, only if the tenant
has a quota of them, and adds what it has let in since: docs/decisions/0046-quotas.md.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from types import TracebackType
from typing import Self

import structlog

from shardclock_server.gateway.limits.rates import RateLimits
from shardclock_server.gateway.limits.room import WAY_OUT, Room, over_quota
from shardclock_server.gateway.limits.standing import Standing
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.service.words import counted
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.sql.tenants.tenants import (
    NO_LIMIT,
    Limits,
    Pending,
    count_schedules,
    find_limits,
    measure_pending,
)
from shardclock_server.timers.refusal import shortened

LOOK_S = 1.0  # between two looks at a tenant that asks for something
LOOK_SHARE = 0.05  # of the time, at most, that a gateway spends on looks at one tenant
STALE_S = 30.0  # older than this, nothing that was found is relied on
TENANTS_MAX = 10_000
HOUR_S = 3_600
# A tenant's changes leave records that are kept for 400 days: 3.5 million at most, some 1 GB.
ACTS_PER_HOUR, ACTS_AT_ONCE = 360, 2_000
WAITERS_AGAIN_S = 1
ENDPOINTS_AGAIN_S = 60


class Quotas:
    """Hold the tenants of one gateway to their limits; one without limits of its own has the `usual` ones."""

    def __init__(
        self,
        pool: Pool,
        usual: Limits,
        *,
        acts_per_hour: int = ACTS_PER_HOUR,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._usual = usual
        self._clock = clock
        self._rates = RateLimits(clock=clock)
        self._lines = RateLimits(debt_s=inf, clock=clock)  # of bodies of many lines, which count in both
        self._acts_per_s = acts_per_hour / HOUR_S
        self._acts = RateLimits(burst_s=ACTS_AT_ONCE / self._acts_per_s, rule=_may_act, clock=clock)
        self._standings: dict[str, Standing] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    async def limits_of(self, tenant_id: str) -> Limits:
        """Return what a tenant may have, as of a moment ago.

        errors:  StoreUnavailable  nobody can tell now
        """
        return (await self._standing_of(tenant_id)).limits

    async def take_write(self, tenant_id: str) -> None:
        """Take one of a tenant's writes a second.

        errors:  Problem           it has taken too many; it says when to ask again
                 StoreUnavailable  nobody can tell now what it may
        """
        await self._take(self._rates, tenant_id, 1)

    async def take_lines(self, tenant_id: str, count: int) -> None:
        """Take as many of a tenant's writes as a body has lines.

        The next body waits until the rate has paid for all of them; other writes wait a minute at most.

        errors:  as of `take_write`
        """
        await self._take(self._lines, tenant_id, count)
        try:
            await self._take(self._rates, tenant_id, count)
        except BaseException:
            self._give_back(self._lines, tenant_id, count, of=count)
            raise

    def give_lines_back(self, tenant_id: str, count: int, *, of: int) -> None:
        """Give the writes of some lines of a body back, because they did not take place."""
        for rates in (self._lines, self._rates):
            self._give_back(rates, tenant_id, count, of=of)

    def take_act(self, tenant_id: str) -> None:
        """Take one of a tenant's requests that leave a record in the audit.

        errors:  Problem  it has taken too many; it says when to ask again
        """
        self._acts.take(tenant_id, self._acts_per_s)

    def give_act_back(self, tenant_id: str) -> None:
        """Give one of these requests back, because it leaves no record."""
        self._acts.give_back(tenant_id, self._acts_per_s, 1, of=1)

    async def room(self, tenant_id: str) -> Room:
        """Return the room that a tenant has for more pending timers, for the length of a block.

        errors:  StoreUnavailable  nobody can tell now what it may
        """
        standing = await self._standing_of(tenant_id)
        return Room(standing, self._pool, look_again=partial(self._look_again, standing), clock=self._clock)

    async def take_waiter(self, tenant_id: str) -> Standing:
        """Count a caller among those of its tenant who wait here, or follow the log; it is the caller's to end that.

        errors:  Problem           as many of its tenant wait here as may
                 StoreUnavailable  nobody can tell now how many may
        """
        standing = await self._standing_of(tenant_id)
        most = standing.limits.waiters_max
        if most is not None and standing.waiting >= most and await self._is_looked_at(standing):
            most = standing.limits.waiters_max
        if most is not None and standing.waiting >= most:
            raise over_quota(
                f"tenant {shortened(tenant_id)} may have {counted(most, 'caller')} who wait at this gateway or follow"
                f" the log, and has {standing.waiting:,}; ask again without wait or for a page of the log, {WAY_OUT}",
                again_s=WAITERS_AGAIN_S, quota="waiters", limit=most,
            )  # fmt: skip
        standing.waiting += 1
        return standing

    def count_waiting(self, tenant_id: str) -> int:
        """Count a tenant's callers who wait here now."""
        standing = self._standings.get(tenant_id)
        return 0 if standing is None else standing.waiting

    async def _standing_of(self, tenant_id: str) -> Standing:
        """Find out how a tenant stands: known from a while ago, while a newer look is under way."""
        standing = self._standings.get(tenant_id)
        if standing is None:
            self._make_room()
            standing = self._standings[tenant_id] = Standing(tenant_id)
        now_s = self._clock()
        if standing.looked_at_s is None or now_s - standing.looked_at_s > STALE_S:
            await self._look_at(standing)
        elif standing.is_due(now_s):
            self._begin_look(standing)
        return standing

    async def _take(self, rates: RateLimits, tenant_id: str, count: int) -> None:
        standing = await self._standing_of(tenant_id)
        try:
            rates.take(tenant_id, standing.limits.rate_per_s, count)
        except Problem:
            if not await self._is_looked_at(standing):
                raise
            rates.take(tenant_id, standing.limits.rate_per_s, count)

    def _give_back(self, rates: RateLimits, tenant_id: str, count: int, *, of: int) -> None:
        if (standing := self._standings.get(tenant_id)) is not None:
            rates.give_back(tenant_id, standing.limits.rate_per_s, count, of=of)

    async def _is_looked_at(self, standing: Standing) -> bool:
        """Wait for the look that is under way before a refusal: an old limit refuses nothing. False: there is none."""
        if standing.tenant_id not in self._looks:
            return False
        with suppress(StoreUnavailable):
            await self._look_at(standing)
        return True

    async def _look_again(self, standing: Standing) -> None:
        """Look at a tenant without room if it is time, since some timers may have fired; or to count its schedules."""
        for _ in range(2):  # A look that has begun earlier perhaps counts no schedules.
            if standing.is_due(self._clock()) or standing.lacks_schedules:
                await self._look_at(standing)

    async def _look_at(self, standing: Standing) -> None:
        """Look at a tenant, or wait for the look that is under way; a caller who goes does not end it for others."""
        self._begin_look(standing)
        await asyncio.shield(self._looks[standing.tenant_id])

    def _begin_look(self, standing: Standing) -> None:
        if standing.tenant_id not in self._looks:
            look = asyncio.create_task(self._look(standing), name="quota look")
            self._looks[standing.tenant_id] = look
            look.add_done_callback(lambda done: self._end_look(standing, done))

    def _end_look(self, standing: Standing, look: "asyncio.Task[None]") -> None:
        del self._looks[standing.tenant_id]
        if not look.cancelled() and look.exception() is not None:
            # Whoever waits for it is told. Others hear of it when what is known has become too old.
            standing.begin_again_at(self._clock() + LOOK_S)

    async def _look(self, standing: Standing) -> None:
        begun_s = self._clock()
        # The size of the default tenant is estimated from a sample of all timers.
        async with self._pool.session(ALL_TENANTS) as session:
            limits = await find_limits(session, standing.tenant_id) or self._usual
            counts_schedules = standing.begin()
            pending = await _count(session, standing.tenant_id, limits, counts_schedules=counts_schedules)
        now_s = self._clock()
        next_s = now_s + max(LOOK_S, (now_s - begun_s) / LOOK_SHARE)
        standing.end(limits, pending, now_s, next_s=next_s, counts_schedules=counts_schedules)

    def _make_room(self) -> None:
        if len(self._standings) >= TENANTS_MAX:
            self._standings = {
                name: standing
                for name, standing in self._standings.items()
                if standing.is_in_use or name in self._looks
            }


def _may_act(per_s: float) -> str:
    return (
        f"may send {per_s * HOUR_S:,.0f} requests an hour here that leave a record in the audit, {ACTS_AT_ONCE:,} at"
        " once; change many things by one request"
    )


def too_many_endpoints(tenant_id: str, most: int) -> Problem:
    """Say that a tenant has as many endpoints as it may have."""
    return over_quota(
        f"tenant {shortened(tenant_id)} may have {counted(most, 'endpoint')}, and has as many; remove one, {WAY_OUT}",
        again_s=ENDPOINTS_AGAIN_S, quota="endpoints", limit=most,
    )  # fmt: skip


async def _count(session: Session, tenant_id: str, limits: Limits, *, counts_schedules: bool) -> Pending | None:
    """Count what a tenant has pending, if that is limited; None: the count took too long."""
    pending = Pending()
    # More bytes may come with each timer: if these are limited, all timers are counted.
    most = limits.timers_max if limits.payload_bytes_max is None else None
    try:
        if limits.are_of_pending:
            pending = await measure_pending(session, tenant_id, timers_max=most)
        if counts_schedules and limits.schedules_most < NO_LIMIT:
            schedules = await count_schedules(session, tenant_id, most=limits.schedules_most)
            pending = replace(pending, schedules=schedules)
    except StoreUnavailable as error:
        # Its limits were read just now, so Postgres is there. To refuse all that a tenant asks for is worse than to
        # let in what an older count has room for.
        structlog.get_logger().warning("a tenant's timers were not counted", tenant=tenant_id, why=str(error))
        return None
    return pending
