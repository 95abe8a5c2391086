"""Where in the deliveries a worker's claims look: pure decisions, taken from what the last claims found.

What was settled stays in the index until vacuum removes it, and what is in hand lies before what waits. A claim that
began at a lane's soonest delivery would read past all of them, again and again. So claims go on, in the lanes that are
known, where the last one ended. Beside them a search finds what they can't see: lanes that are new, and deliveries that
are free again. It reads every lane from its beginning, and takes long if many settled deliveries can't be removed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shardclock_server.sql.deliveries.claim import (
    BEGINNING,
    ClaimedDelivery,
    DeliveryScan,
    DeliveryScanResult,
    Lane,
    Position,
)

SEARCH_SHARE, SEARCH_GAP_S = 0.1, 0.02  # searches take at most a tenth of the time
# A delivery is due when its firing begins, and is seen when that is committed: some milliseconds later, or a second if
# thousands fire at once. Claims go on behind each other, so they pass what is seen late. When they find no more, the
# next claim begins before the first of them, by a margin. The margin is longer if firings took long lately. A search
# finds what is seen even later.
MARGIN_S, FIRINGS_LONGER, MARGIN_MAX_S = 0.3, 2.0, 5.0
FIRINGS_KEPT_S = 5.0  # how long the slowest firing counts
READING_MAX_S = 5.0  # if the first of the claims is longer ago, the next one begins so long before the last one
# While deliveries come, the known lanes are read so often: that costs less than a hint for each. Then ever more seldom.
BUSY_PAUSE_S, PAUSE_MAX_S = 0.004, 1.0
SLOW_SEARCH_S = 0.05  # a search of so many lanes comes again after ten times as long: new lanes are found beside it
LANES_MAX = 200  # of which a position is known; searches alone read the others


@dataclass(slots=True)
class SlowestFiring:
    """How long firings take before they are committed, by what is claimed of them.

    units:   seconds; now_s of the monotonic clock, now of Postgres's
    """

    _took_s: float = 0.0
    _at_s: float = float("-inf")

    def learn(self, claimed: Sequence[ClaimedDelivery], *, now: datetime, now_s: float) -> None:
        """Learn how long it was from the begin of each firing until it wrote its delivery; old firings tell nothing."""
        since = now - timedelta(seconds=FIRINGS_KEPT_S)
        # Of one that was tried before, the next attempt is later than the firing: it tells nothing.
        took = max((it.fired_at - it.next_attempt_at for it in claimed if it.fired_at > since), default=timedelta())
        took_s = took.total_seconds()
        if took_s >= self._took_s or now_s > self._at_s + FIRINGS_KEPT_S:
            self._took_s, self._at_s = max(0.0, took_s), now_s

    @property
    def margin_s(self) -> float:
        """Return the longest time between the begin of a firing and a reading that misses its deliveries."""
        return min(MARGIN_S + FIRINGS_LONGER * self._took_s, MARGIN_MAX_S)


@dataclass(slots=True)
class ClaimPlanner:
    """Choose which lanes a claim reads, and from where on; and when to search for more.

    `soon` is set when a claim should not wait for the end of its pause. `is_full`: some target has no place for another
    delivery.

    units:   now_s, began_s and ended_s in seconds of the monotonic clock
    """

    soon: asyncio.Event = field(default_factory=asyncio.Event)
    is_full: bool = False
    _positions: dict[Lane, Position] = field(default_factory=dict)  # the lane that was read last comes last
    _pause_s: float = BUSY_PAUSE_S
    _search_at_s: float = float("-inf")
    _after: Lane = BEGINNING  # where the next part of a search begins
    _searched_s: float = 0.0  # how long its parts have taken so far
    _last_search_s: float = 0.0  # how long all parts of the one before took
    _reading_since: dict[Lane, datetime] = field(default_factory=dict)  # the first of claims that have found no end
    _firings: SlowestFiring = field(default_factory=SlowestFiring)

    def known(self, scan: DeliveryScan) -> DeliveryScan | None:
        """Complete a scan of the known lanes for which there are places; None if there are none."""
        known = {lane: position for lane, position in self._positions.items() if scan.has_places(lane)}
        return replace(scan, lanes=known) if known else None

    def pause_s(self, most_s: float) -> float:
        """Return the pause until the known lanes are read again, if there is no hint before."""
        return min(self._pause_s, most_s)

    def search(self, scan: DeliveryScan) -> DeliveryScan:
        """Complete a scan that searches for lanes, or goes on with that."""
        return replace(scan, after=self._after)

    @property
    def is_searching(self) -> bool:
        """Say whether the next part of a search is to follow at once."""
        return self._after != BEGINNING

    def search_pause_s(self, now_s: float) -> float:
        """Return how long to wait until the next search may begin."""
        return max(0.0, self._search_at_s - now_s)

    @property
    def searches_slowly(self) -> bool:
        """Say whether there are so many lanes that a search finds a new one late."""
        return max(self._searched_s, self._last_search_s) > SLOW_SEARCH_S

    @property
    def margin_s(self) -> float:
        """Return the longest time between the begin of a firing and a reading that misses its deliveries."""
        return self._firings.margin_s

    def meet(self, lanes: Mapping[Lane, Position]) -> bool:
        """Let the next claim read lanes that were not known; say whether there are any."""
        new = {lane: position for lane, position in lanes.items() if lane not in self._positions}
        self._remember(new)
        return bool(new)

    def learn(self, scan: DeliveryScan, taken: DeliveryScanResult, *, began_s: float, ended_s: float) -> bool:
        """Learn what a scan has taken; say whether there is more to scan at once."""
        took_s = ended_s - began_s
        if taken.claimed:
            self._pause_s = BUSY_PAUSE_S
        elif scan.lanes is not None:
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        if scan.lanes is None:
            self._after = taken.next
            self._end_search(took_s, ended_s)
        self._remember(_ends_of(taken.claimed))
        self._firings.learn(taken.claimed, now=taken.server_time, now_s=ended_s)
        is_whole = scan.lanes is not None or (scan.after == BEGINNING and taken.next == BEGINNING)
        began = taken.server_time - timedelta(seconds=took_s)
        self._end_reading(scan, began, has_ended=is_whole and not taken.saturated)
        return taken.next != BEGINNING or (taken.saturated and bool(taken.claimed))

    def go_back_to(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Let the next claims find deliveries that were claimed and given back as they were."""
        for it in deliveries:
            lane, before = Lane(it.target, it.tenant_id), Position(it.next_attempt_at, it.timer_key - 1)
            self._remember({lane: min(before, self._positions.get(lane, before))})
        self.soon.set()

    def free_places(self) -> None:
        """Claim soon if a target had no place: calls have ended."""
        if self.is_full:
            self.soon.set()

    def fail_search(self, *, began_s: float, ended_s: float) -> None:
        """Learn that a search got no answer: the next one begins anew, after a pause as if it had come to its end."""
        self._after = BEGINNING
        self._end_search(ended_s - began_s, ended_s)

    def _end_reading(self, scan: DeliveryScan, began: datetime, *, has_ended: bool) -> None:
        """Note for each lane that was read: if nothing is left in it, where the next claim of it begins."""
        margin, longest = timedelta(seconds=self._firings.margin_s), timedelta(seconds=READING_MAX_S)
        for lane in [lane for lane in self._positions if scan.has_places(lane)]:
            since = self._reading_since.setdefault(lane, began)
            if has_ended:
                self._remember({lane: Position(max(since, began - longest) - margin, 0)})
                del self._reading_since[lane]

    def _end_search(self, took_s: float, ended_s: float) -> None:
        self._searched_s += took_s
        if self._after == BEGINNING:
            self._search_at_s = ended_s + max(SEARCH_GAP_S, self._searched_s / SEARCH_SHARE)
            self._last_search_s, self._searched_s = self._searched_s, 0.0

    def _remember(self, positions: dict[Lane, Position]) -> None:
        for lane, position in positions.items():
            self._positions.pop(lane, None)
            self._positions[lane] = position
        while len(self._positions) > LANES_MAX:
            gone = next(iter(self._positions))
            del self._positions[gone]
            self._reading_since.pop(gone, None)


def _ends_of(claimed: list[ClaimedDelivery]) -> dict[Lane, Position]:
    """Return where the reading of each lane has ended: at the last of its deliveries, which come in its order."""
    return {
        Lane(target, tenant_id): Position(next_attempt_at, timer_key)
        for (target, tenant_id), (next_attempt_at, timer_key) in {
            (it.target, it.tenant_id): (it.next_attempt_at, it.timer_key) for it in claimed
        }.items()
    }
