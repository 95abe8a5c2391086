"""What one request takes of the room that its tenant has for more pending timers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Self

from shardclock_server.gateway.limits.standing import NOTHING, Standing
from shardclock_server.gateway.requests.problems import OVER_QUOTA, Problem
from shardclock_server.service.words import counted
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.requests.requests import IdempotentRequest, find_answered
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenants.tenants import Pending, find_places
from shardclock_server.timers.model import NewTimer, OnConflict
from shardclock_server.timers.refusal import shortened

WAY_OUT = "or ask who operates the cluster for more"


@dataclass(slots=True, eq=False)
class Reservation:
    """The room that is reserved for one timer; `place` is the size of the timer that it replaces."""

    standing: Standing
    room: Pending
    whole: Pending
    place: Pending | None = None
    is_open: bool = True

    def settle(self, outcome: Scheduled | Refused | None) -> None:
        """Keep the room of a timer that was added, and give back that of any other; None: it may have been added."""
        if self.is_open:
            self.is_open = False
            self.standing.settle(self.room, self.whole if outcome is None else _written(self, outcome))


class Room:
    """What one request takes of the room that its tenant has; a timer that was not written gives it back.

    A timer that takes the place of another, or stays away because of it, adds none: it needs room only for the bytes by
    which its payload is larger, and a schedule in the place of a plain timer needs room for a schedule. One whose
    request was answered before needs none: that answer is given again. At the end of a block, a timer that may have
    been written counts as written.
    """

    def __init__(
        self, standing: Standing, pool: Pool, *, look_again: Callable[[], Awaitable[None]], clock: Callable[[], float]
    ) -> None:
        self._standing = standing
        self._pool = pool
        self._look_again = look_again
        self._clock = clock
        self._reserved: list[Reservation] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reservation in self._reserved:
            reservation.settle(None)

    async def take(
        self, timers: Sequence[NewTimer], requests: Sequence[IdempotentRequest | None]
    ) -> list[Reservation | Problem | None]:
        """Take room for more timers, one after the other; no timer is refused by an old count.

        shape:   `requests` has for each timer its request, or None. For each timer its reservation, None if it needs
                 none, or the refusal, which says when to ask again
        errors:  StoreUnavailable  the names that are taken or the earlier answers can't be read now: nothing was taken
        """
        has_schedules = any(timer.schedule is not None for timer in timers)
        if not has_schedules and not self._standing.limits.are_of_pending:
            return [None] * len(timers)
        self._standing.wants_schedules |= has_schedules
        if self._standing.lacks_schedules or not self._fits(timers):
            await self._look_again()
        places = await self._places_of(timers)
        answered = set[tuple[str, str]]()
        asked = [request for request in requests if request is not None]
        if asked and not self._fits(timers):
            async with self._session() as session:
                answered = await find_answered(session, asked)
        return [
            None if request is not None and request.key in answered else self._take(timer, places)
            for timer, request in zip(timers, requests, strict=True)
        ]

    async def take_schedule(self) -> None:
        """Take room for a plain timer that becomes a schedule.

        errors:  Problem           there is no room; it says when to ask again
                 StoreUnavailable  the usage can't be read now
        """
        one = Pending(schedules=1)
        self._standing.wants_schedules = True
        if self._standing.lacks_schedules or self._standing.exceeded_by(one) is not None:
            await self._look_again()
        quota = self._standing.exceeded_by(one)
        if quota is not None:
            raise self._refusal_of(*quota)
        self._reserve(one, one)

    def _fits(self, timers: Sequence[NewTimer]) -> bool:
        """Say whether there is room for all of them, if none takes another's place."""
        sizes = [_size_of(timer) for timer in timers]
        whole = Pending(len(sizes), sum(it.payload_bytes for it in sizes), sum(it.schedules for it in sizes))
        return self._standing.exceeded_by(whole) is None

    async def _places_of(self, timers: Sequence[NewTimer]) -> Mapping[str, Pending]:
        """Find the names of these timers that are taken, if that makes a difference, each with its timer's size."""
        matters = self._standing.limits.payload_bytes_max is not None or not self._fits(timers)
        names = {
            timer.name
            for timer in timers
            if timer.name and timer.on_conflict != OnConflict.REFUSE and (matters or timer.schedule is not None)
        }
        if not names:
            return {}
        async with self._session() as session:
            return await find_places(session, self._standing.tenant_id, sorted(names))

    def _session(self) -> AbstractAsyncContextManager[Session]:
        return self._pool.session(frozenset({self._standing.tenant_id}))

    def _take(self, timer: NewTimer, places: Mapping[str, Pending]) -> Reservation | Problem:
        whole, place = _size_of(timer), None
        if timer.name is not None and timer.on_conflict != OnConflict.REFUSE:
            place = places.get(timer.name)
        room = whole
        if place is not None:
            more = _more(whole, place) if timer.on_conflict == OnConflict.REPLACE else NOTHING
            room = Pending(0, max(0, more.payload_bytes), max(0, more.schedules))
        quota = self._standing.exceeded_by(room)
        if quota is not None:
            return self._refusal_of(*quota)
        return self._reserve(room, whole, place)

    def _reserve(self, room: Pending, whole: Pending, place: Pending | None = None) -> Reservation:
        self._standing.take(room)
        reservation = Reservation(self._standing, room, whole, place)
        self._reserved.append(reservation)
        return reservation

    def _refusal_of(self, quota: str, limit: int) -> Problem:
        has = self._standing.has(quota)
        at_least = " or more" if has >= limit else ""  # nobody has counted any further
        until = "ended" if quota == "schedules" else "fired"
        return over_quota(
            f"tenant {shortened(self._standing.tenant_id)} may have {_limit_in_words(quota, limit)}, and has"
            f" {has:,}{at_least}; cancel some, wait until some have {until}, {WAY_OUT}",
            again_s=self._standing.again_in_s(self._clock()), quota=quota, limit=limit,
        )  # fmt: skip


def over_quota(sentence: str, *, again_s: int, quota: str, limit: int) -> Problem:
    """Say that a tenant has as much as it may have."""
    return Problem(OVER_QUOTA, sentence, headers={"Retry-After": str(again_s)}, quota=quota, limit=limit)


def _written(taken: Reservation, outcome: Scheduled | Refused) -> Pending:
    """Say how much more there is since a timer was written."""
    if isinstance(outcome, Refused) or outcome.replayed:
        return NOTHING
    if outcome.outcome == "created":  # also if the timer whose place it was to take has ended meanwhile
        return taken.whole
    if outcome.outcome == "replaced":
        # A place that was taken since is perhaps a plain timer's: the next look knows.
        return Pending(schedules=taken.whole.schedules) if taken.place is None else _more(taken.whole, taken.place)
    return NOTHING


def _more(timer: Pending, place: Pending) -> Pending:
    """Return by how much a timer is larger than the timer that it replaces; negative if it is smaller."""
    return Pending(0, timer.payload_bytes - place.payload_bytes, timer.schedules - place.schedules)


def _size_of(timer: NewTimer) -> Pending:
    payload_bytes = 0 if timer.payload is None else len(timer.payload.encode())
    return Pending(1, payload_bytes, 0 if timer.schedule is None else 1)


def _limit_in_words(quota: str, limit: int) -> str:
    if quota == "payload_bytes":
        return f"{counted(limit, 'byte')} of pending payloads"
    return counted(limit, "pending timer" if quota == "timers" else "pending schedule")
