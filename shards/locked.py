"""Retry leased timers if other transactions have locked their rows.

For each transaction that holds locks, the shard retries only one timer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardclock_server.sql.claims.claim import LeasedRow
from shardclock_server.timers.model import ClaimedTimer

RETRY_S = 0.05  # The time between two tries; most transactions of clients are shorter.
# The limit of retries per second, for all lockers together; a retry takes about 20 µs, so retries take at most 1 % of a
# shard's time.
TRIES_PER_S = 400


@dataclass(frozen=True, slots=True)
class LockedRetry:
    """The locked timers that the shard tries again.

    `now` has timers that are retried immediately, because their locks may have been released. `later` has one timer for
    each locker (the transaction with the lock); these timers are retried after `later_s`.
    """

    now: list[ClaimedTimer]
    later: list[ClaimedTimer]
    later_s: float


class LockedTimers:
    """Group the locked timers by locker, and retry the first timer of each group.

    If a locker still locks the first timer of its group, it probably locks the other timers too.

    The locker is the number in the row's `xmax`: a transaction or a multixact. One transaction may lock all 15,000
    timers that a shard leases; retries of all these timers would take the shard's whole time.

    A timer that is locked for longer than its lease is removed from the groups; a claim finds the timer after the
    unlock. The groups have at most `timers_max` timers; a claim finds any further timer after the end of its lease.
    """

    def __init__(self, *, lease_s: float, timers_max: int) -> None:
        self._lease_s = lease_s
        self._timers_max = timers_max
        self._lockers: dict[int, str] = {}  # By timer_key.
        # Keys: the locker, then timer_key; values: the moment when the row was found locked, and the timer.
        self._groups: dict[str, dict[int, tuple[float, ClaimedTimer]]] = {}

    def __len__(self) -> int:
        """Count the grouped timers, except the first timer of each group, which is in the timer queue."""
        return len(self._lockers) - len(self._groups)

    def learn(self, sent: Iterable[int], locked: Sequence[LeasedRow], *, now_s: float) -> LockedRetry:
        """Record the timers that a statement found locked; return the timers to retry.

        units:   now_s in seconds since 1970
        """
        lockers = {held.timer.timer_key: held.locker for held in locked}
        before = sent if self._lockers else ()
        free = [timer for timer_key in before for timer in self._settle(timer_key, lockers.get(timer_key))]
        for held in locked:
            self._keep(held, now_s=now_s)
        firsts = (self._first(locker, now_s=now_s) for locker in dict.fromkeys(lockers.values()))
        return LockedRetry(free, [first for first in firsts if first], max(RETRY_S, len(self._groups) / TRIES_PER_S))

    def _settle(self, timer_key: int, locker: str | None) -> list[ClaimedTimer]:
        """Remove a timer from its group, unless the same locker still locks it.

        shape:   returns the other timers of the old group, because their rows may be unlocked now
        """
        before = self._lockers.get(timer_key)
        if before is None or before == locker:
            return []
        group = self._groups[before]
        if timer_key != next(iter(group)):
            del group[timer_key], self._lockers[timer_key]
            return []
        del self._groups[before]
        for each in group:
            del self._lockers[each]
        del group[timer_key]
        return [timer for _, timer in group.values()]

    def _keep(self, held: LeasedRow, *, now_s: float) -> None:
        timer_key, found_s = held.timer.timer_key, now_s
        if timer_key in self._lockers:
            found_s, _ = self._groups[held.locker][timer_key]
        elif len(self._lockers) >= self._timers_max:
            return
        self._lockers[timer_key] = held.locker
        self._groups.setdefault(held.locker, {})[timer_key] = (found_s, held.timer)

    def _first(self, locker: str, *, now_s: float) -> ClaimedTimer | None:
        """Return the timer to retry for a locker's group; remove timers that were locked for a whole lease."""
        group = self._groups.get(locker, {})
        for timer_key, (found_s, timer) in list(group.items()):
            if found_s > now_s - self._lease_s:
                return timer
            del group[timer_key], self._lockers[timer_key]
        self._groups.pop(locker, None)
        return None
