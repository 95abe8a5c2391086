"""The limits of each tenant at one gateway: writes per second, pending timers, schedules, and waiting callers.

`timer_quotas` checks the quotas of a new timer. Postgres checks the quotas of instances, definitions and messages
(sql/functions/quotas/check_process_quota.sql). Engines check the quotas of a running instance
(engine/tenant_quotas.py).

A gateway does not count timers in Postgres for each new timer. The gateway repeatedly counts the pending timers of a
tenant with a quota, and adds the timers that it has written since the last count: docs/decisions/0046-quotas.md.
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
from shardclock_server.gateway.limits.timer_quotas import QuotaReservation, over_quota
from shardclock_server.gateway.limits.usage import TenantUsage
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.sql.tenant_limits.tenant_limits import (
    NO_LIMIT,
    Limits,
    Pending,
    count_schedules,
    find_limits,
    measure_pending,
)

COUNT_S = 1.0  # The time between two counts of an active tenant.
COUNT_SHARE = 0.05  # Counts of one tenant take at most this share of the time.
STALE_S = 30.0  # A count that is older than this is not used.
TENANTS_MAX = 10_000
HOUR_S = 3_600
# The audit keeps records for 400 days, so this limit bounds one tenant's records: at most 3.5 million, about 1 GB.
AUDITED_PER_HOUR, AUDITED_AT_ONCE = 360, 2_000
WAITERS_AGAIN_S = 1
ENDPOINTS_AGAIN_S = 60


class Quotas:
    """Enforce the limits of the tenants at one gateway; a tenant without its own limits has the `usual` limits."""

    def __init__(
        self,
        pool: Pool,
        usual: Limits,
        *,
        audited_per_hour: int = AUDITED_PER_HOUR,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._usual = usual
        self._clock = clock
        self._rates = RateLimits(clock=clock)
        self._lines = RateLimits(debt_s=inf, clock=clock)  # lines of bodies; each line also counts in `_rates`
        self._audited_per_s = audited_per_hour / HOUR_S
        self._audited = RateLimits(burst_s=AUDITED_AT_ONCE / self._audited_per_s, rule=_audited_rule, clock=clock)
        self._usages: dict[str, TenantUsage] = {}
        self._counts: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        counts = list(self._counts.values())
        for count in counts:
            count.cancel()
        await asyncio.gather(*counts, return_exceptions=True)

    async def limits_of(self, tenant_id: str) -> Limits:
        """Return a tenant's limits, at most STALE_S old.

        errors:  StoreUnavailable  the limits can't be read now
        """
        return (await self._usage_of(tenant_id)).limits

    async def take_write(self, tenant_id: str) -> None:
        """Subtract one write from a tenant's rate budget.

        errors:  Problem  the tenant exceeds its rate limit; the problem says when to retry
                 StoreUnavailable  the limits can't be read now
        """
        await self._take(self._rates, tenant_id, 1)

    async def take_lines(self, tenant_id: str, count: int) -> None:
        """Subtract one write from a tenant's rate budget for each line of a body.

        The tenant's next body of lines is refused until the rate has covered these lines; the tenant's other writes are
        refused for at most a minute.

        errors:  as in `take_write`
        """
        await self._take(self._lines, tenant_id, count)
        try:
            await self._take(self._rates, tenant_id, count)
        except BaseException:
            self._give_back(self._lines, tenant_id, count, of=count)
            raise

    def give_lines_back(self, tenant_id: str, count: int, *, of: int) -> None:
        """Undo `take_lines` for the lines that were not written."""
        for rates in (self._lines, self._rates):
            self._give_back(rates, tenant_id, count, of=of)

    def take_audited(self, tenant_id: str) -> None:
        """Subtract one request with an audit record from a tenant's rate budget.

        errors:  Problem  the tenant has sent too many requests; the problem says when to retry
        """
        self._audited.take(tenant_id, self._audited_per_s)

    def give_audited_back(self, tenant_id: str) -> None:
        """Undo one call of `take_audited`, because the request leaves no audit record."""
        self._audited.give_back(tenant_id, self._audited_per_s, 1, of=1)

    async def reservation(self, tenant_id: str) -> QuotaReservation:
        """Return a reservation of quota for more pending timers, to be used in a `with` statement.

        errors:  StoreUnavailable  the limits can't be read now
        """
        usage = await self._usage_of(tenant_id)
        return QuotaReservation(usage, self._pool, recount=partial(self._recount, usage), clock=self._clock)

    async def take_waiter(self, tenant_id: str) -> TenantUsage:
        """Count another waiting caller of a tenant; the caller of this method subtracts one at the end of the wait.

        errors:  Problem           the tenant has reached its limit of waiting callers at this gateway
                 StoreUnavailable  the limit can't be read now
        """
        usage = await self._usage_of(tenant_id)
        most = usage.limits.waiters_max
        if most is not None and usage.waiting >= most and await self._await_count(usage):
            most = usage.limits.waiters_max
        if most is not None and usage.waiting >= most:
            raise over_quota(tenant_id, "waiters", limit=most, more=1, again_s=WAITERS_AGAIN_S)
        usage.waiting += 1
        return usage

    def count_waiting(self, tenant_id: str) -> int:
        """Count a tenant's waiting callers at this gateway."""
        usage = self._usages.get(tenant_id)
        return 0 if usage is None else usage.waiting

    async def _usage_of(self, tenant_id: str) -> TenantUsage:
        """Return a tenant's usage by the last finished count, even while a newer count is in progress."""
        usage = self._usages.get(tenant_id)
        if usage is None:
            self._forget_idle()
            usage = self._usages[tenant_id] = TenantUsage(tenant_id)
        now_s = self._clock()
        if usage.counted_at_s is None or now_s - usage.counted_at_s > STALE_S:
            await self._refresh(usage)
        elif usage.is_due(now_s):
            self._begin_count(usage)
        return usage

    async def _take(self, rates: RateLimits, tenant_id: str, count: int) -> None:
        usage = await self._usage_of(tenant_id)
        try:
            rates.take(tenant_id, usage.limits.rate_per_s, count)
        except Problem:
            if not await self._await_count(usage):
                raise
            rates.take(tenant_id, usage.limits.rate_per_s, count)

    def _give_back(self, rates: RateLimits, tenant_id: str, count: int, *, of: int) -> None:
        if (usage := self._usages.get(tenant_id)) is not None:
            rates.give_back(tenant_id, usage.limits.rate_per_s, count, of=of)

    async def _await_count(self, usage: TenantUsage) -> bool:
        """Wait for a count in progress, so that only a current limit refuses requests; False: no count runs."""
        if usage.tenant_id not in self._counts:
            return False
        with suppress(StoreUnavailable):
            await self._refresh(usage)
        return True

    async def _recount(self, usage: TenantUsage) -> None:
        """Count again before a refusal if the last count is old or lacks the schedules."""
        for _ in range(2):  # twice, because a count that is already in progress may lack the schedules
            if usage.is_due(self._clock()) or usage.lacks_schedules:
                await self._refresh(usage)

    async def _refresh(self, usage: TenantUsage) -> None:
        """Count a tenant's usage, or wait for the count in progress; if a caller is cancelled, the count continues."""
        self._begin_count(usage)
        await asyncio.shield(self._counts[usage.tenant_id])

    def _begin_count(self, usage: TenantUsage) -> None:
        if usage.tenant_id not in self._counts:
            count = asyncio.create_task(self._count_usage(usage), name="quota count")
            self._counts[usage.tenant_id] = count
            count.add_done_callback(lambda done: self._end_count(usage, done))

    def _end_count(self, usage: TenantUsage, count: "asyncio.Task[None]") -> None:
        del self._counts[usage.tenant_id]
        if not count.cancelled() and count.exception() is not None:
            # Callers that wait for this count get the error. Other callers use the last count; they get an error only
            # if it is too old.
            usage.postpone_count(self._clock() + COUNT_S)

    async def _count_usage(self, usage: TenantUsage) -> None:
        begun_s = self._clock()
        # The session reads the rows of all tenants, because the usage of the default tenant is estimated from a sample
        # of all timers.
        async with self._pool.session(ALL_TENANTS) as session:
            limits = await find_limits(session, usage.tenant_id) or self._usual
            counts_schedules = usage.begin_count()
            pending = await _count(session, usage.tenant_id, limits, counts_schedules=counts_schedules)
        now_s = self._clock()
        next_s = now_s + max(COUNT_S, (now_s - begun_s) / COUNT_SHARE)
        usage.end_count(limits, pending, now_s, next_s=next_s, counts_schedules=counts_schedules)

    def _forget_idle(self) -> None:
        if len(self._usages) >= TENANTS_MAX:
            self._usages = {
                name: usage for name, usage in self._usages.items() if usage.is_in_use or name in self._counts
            }


def _audited_rule(per_s: float) -> str:
    return (
        f"may send {per_s * HOUR_S:,.0f} requests an hour here that leave a record in the audit, {AUDITED_AT_ONCE:,} at"
        " once; change many things by one request"
    )


def endpoints_over_quota(tenant_id: str, most: int) -> Problem:
    """Create the refusal for a tenant at its limit of endpoints."""
    return over_quota(tenant_id, "endpoints", limit=most, more=1, again_s=ENDPOINTS_AGAIN_S)


async def _count(session: Session, tenant_id: str, limits: Limits, *, counts_schedules: bool) -> Pending | None:
    """Count a tenant's pending timers and schedules if they are limited; None: the count took too long."""
    pending = Pending()
    # A limit in bytes needs the sum of all payloads, so the count can't stop early.
    most = limits.timers_max if limits.payload_bytes_max is None else None
    try:
        if limits.are_of_pending:
            pending = await measure_pending(session, tenant_id, timers_max=most)
        if counts_schedules and limits.schedules_most < NO_LIMIT:
            schedules = await count_schedules(session, tenant_id, most=limits.schedules_most)
            pending = replace(pending, schedules=schedules)
    except StoreUnavailable as error:
        # Postgres has just returned the limits, so Postgres works, and only the count is slow. The caller uses an older
        # count, because without a count it would have to refuse all requests of the tenant.
        structlog.get_logger().warning("a tenant's timers were not counted", tenant=tenant_id, why=str(error))
        return None
    return pending
