"""Check a tenant's quotas of pending timers, schedules and payload bytes, and reserve quota for one request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Self

from shardclock.api.codes import quota as quota_code
from shardclock.api.refusals.tenants import QUOTAS
from shardclock_server.gateway.limits.usage import NOTHING, TenantUsage
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.idempotency.requests import IdempotentRequest, find_answered
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import Pending, find_named_pending
from shardclock_server.timers.model import NewTimer, OnConflict


@dataclass(slots=True, eq=False)
class TimerReservation:
    """The quota that is reserved for one timer; `replaced` is the size of the replaced timer."""

    usage: TenantUsage
    reserved: Pending
    size: Pending
    replaced: Pending | None = None
    is_open: bool = True

    def settle(self, outcome: Scheduled | Refused | None) -> None:
        """Count the timer as usage if it was added or its outcome is unknown (None); otherwise release the quota."""
        if self.is_open:
            self.is_open = False
            self.usage.settle(self.reserved, self.size if outcome is None else _written(self, outcome))


class QuotaReservation:
    """Reserve quota of a tenant for one request; release the quota of timers that were not written.

    A timer that replaces another timer, or that is not written because its name is taken, needs no quota of timers. A
    replacing timer needs quota for the bytes by which its payload is larger, and a schedule that replaces a plain timer
    needs quota of schedules. A repeated request needs no quota, because it gets the stored response. At the end of the
    `with` block, a timer with an unknown outcome counts as written.
    """

    def __init__(
        self, usage: TenantUsage, pool: Pool, *, recount: Callable[[], Awaitable[None]], clock: Callable[[], float]
    ) -> None:
        self._usage = usage
        self._pool = pool
        self._recount = recount
        self._clock = clock
        self._reserved: list[TimerReservation] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reservation in self._reserved:
            reservation.settle(None)

    async def reserve(
        self, timers: Sequence[NewTimer], requests: Sequence[IdempotentRequest | None]
    ) -> list[TimerReservation | Problem | None]:
        """Reserve quota for timers, one after the other; refuse a timer only after a fresh count.

        shape:   `requests` has for each timer its idempotent request, or None. The result has for each timer its
                 reservation, None if the timer needs no reservation, or the refusal, which says when to retry
        errors:  StoreUnavailable  the existing timers or the stored responses can't be read: nothing was reserved
        """
        has_schedules = any(timer.schedule is not None for timer in timers)
        if not has_schedules and not self._usage.limits.are_of_pending:
            return [None] * len(timers)
        self._usage.wants_schedules |= has_schedules
        if self._usage.lacks_schedules or not self._fits(timers):
            await self._recount()
        existing = await self._existing_sizes(timers)
        answered = set[tuple[str, str]]()
        asked = [request for request in requests if request is not None]
        if asked and not self._fits(timers):
            async with self._session() as session:
                answered = await find_answered(session, asked)
        return [
            None if request is not None and request.key in answered else self._reserve_one(timer, existing)
            for timer, request in zip(timers, requests, strict=True)
        ]

    async def reserve_schedule(self) -> None:
        """Reserve quota for a plain timer that becomes a schedule.

        errors:  Problem           the quota would be exceeded; the problem says when to retry
                 StoreUnavailable  the usage can't be read now
        """
        one = Pending(schedules=1)
        self._usage.wants_schedules = True
        if self._usage.lacks_schedules or self._usage.exceeded_by(one) is not None:
            await self._recount()
        if (problem := self._refusal_of(one)) is not None:
            raise problem
        self._reserve(one, one)

    def _fits(self, timers: Sequence[NewTimer]) -> bool:
        """Return whether the quotas suffice even if no timer replaces an existing timer."""
        sizes = [_size_of(timer) for timer in timers]
        whole = Pending(len(sizes), sum(it.payload_bytes for it in sizes), sum(it.schedules for it in sizes))
        return self._usage.exceeded_by(whole) is None

    async def _existing_sizes(self, timers: Sequence[NewTimer]) -> Mapping[str, Pending]:
        """Find the sizes of the existing timers with the same names; empty if no quota depends on existing timers."""
        matters = self._usage.limits.payload_bytes_max is not None or not self._fits(timers)
        names = {
            timer.name
            for timer in timers
            if timer.name and timer.on_conflict != OnConflict.REFUSE and (matters or timer.schedule is not None)
        }
        if not names:
            return {}
        async with self._session() as session:
            return await find_named_pending(session, self._usage.tenant_id, sorted(names))

    def _session(self) -> AbstractAsyncContextManager[Session]:
        return self._pool.session(frozenset({self._usage.tenant_id}))

    def _reserve_one(self, timer: NewTimer, existing: Mapping[str, Pending]) -> TimerReservation | Problem:
        whole, replaced = _size_of(timer), None
        if timer.name is not None and timer.on_conflict != OnConflict.REFUSE:
            replaced = existing.get(timer.name)
        added = whole
        if replaced is not None:
            more = _more(whole, replaced) if timer.on_conflict == OnConflict.REPLACE else NOTHING
            added = Pending(0, max(0, more.payload_bytes), max(0, more.schedules))
        if (exceeded := self._usage.exceeded_by(added)) is not None:
            quota, limit = exceeded
            again_s = self._usage.retry_after_s(self._clock())
            return over_quota(self._usage.tenant_id, quota, limit=limit, more=getattr(added, quota), again_s=again_s)
        return self._reserve(added, whole, replaced)

    def _refusal_of(self, added: Pending) -> Problem | None:
        exceeded = self._usage.exceeded_by(added)
        if exceeded is None:
            return None
        name, limit = exceeded
        again_s = self._usage.retry_after_s(self._clock())
        return over_quota(self._usage.tenant_id, name, limit=limit, more=getattr(added, name), again_s=again_s)

    def _reserve(self, added: Pending, whole: Pending, replaced: Pending | None = None) -> TimerReservation:
        self._usage.reserve(added)
        reservation = TimerReservation(self._usage, added, whole, replaced)
        self._reserved.append(reservation)
        return reservation


def over_quota(tenant_id: str, name: str, *, limit: int, more: int, again_s: int) -> Problem:
    """Create the refusal for a tenant that would exceed a quota."""
    things, way_out = QUOTAS[name]
    code = quota_code(name)
    sentence = code.sentence(tenant_id=tenant_id, limit=limit, things=things, more=more, way_out=way_out)
    return Problem(code, sentence, headers={"Retry-After": str(again_s)}, quota=name, limit=limit)


def _written(taken: TimerReservation, outcome: Scheduled | Refused) -> Pending:
    """Return the usage that a written timer has added."""
    if isinstance(outcome, Refused) or outcome.replayed:
        return NOTHING
    if outcome.outcome == "created":  # the named timer may have ended since `_existing_sizes` read it
        return taken.size
    if outcome.outcome == "replaced":
        # If the replaced timer was written after `_existing_sizes`, its size is unknown, until the next count.
        return Pending(schedules=taken.size.schedules) if taken.replaced is None else _more(taken.size, taken.replaced)
    return NOTHING


def _more(timer: Pending, replaced: Pending) -> Pending:
    """Return the size of a timer minus the size of the replaced timer."""
    return Pending(0, timer.payload_bytes - replaced.payload_bytes, timer.schedules - replaced.schedules)


def _size_of(timer: NewTimer) -> Pending:
    payload_bytes = 0 if timer.payload is None else len(timer.payload.encode())
    return Pending(1, payload_bytes, 0 if timer.schedule is None else 1)
